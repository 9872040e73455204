-- What people are told. A notice has the id of its cause, so whoever handles the cause again tells nobody twice. A person's notices are read by
-- the key, the newest first, since ids are in the order of time; notices_at is for those that are old enough to go.
-- notice_people has how somebody wants to be told, and when a mail goes to them; most have no row. notice_people_due is for those to whom a mail goes.
-- Undo: drop the tables; nobody is told anything.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS notices (
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- who is told
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of the cause
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- share | role | space | group | export | collect | quota | webhook | operation
  what       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- given | changed | taken | ending | ended | ready | failed | arrived | full | disabled
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that it is about
  node_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '': it is about none
  by_id      VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- who did it; '': the program
  data       VARBINARY(2048) NOT NULL, -- JSON
  at         BIGINT NOT NULL,
  read_at    BIGINT NOT NULL, -- 0: not yet
  mail       BIGINT NOT NULL, -- 1: it waits to be mailed
  PRIMARY KEY (user_id, id),
  KEY notices_at (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS notice_people (
  user_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  address       VARBINARY(255) NOT NULL, -- of mail; '': none
  state         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- none | asked | confirmed | refused
  code          VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that confirms the address; '': none waits
  code_until    BIGINT NOT NULL,
  code_tries    BIGINT NOT NULL, -- wrong ones
  codes         BIGINT NOT NULL, -- that were asked for since codes_since
  codes_since   BIGINT NOT NULL,
  language      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- en | zh-CN
  channels      VARBINARY(1024) NOT NULL, -- JSON: kind to off | page | mail; what is not there is mail
  due_at        BIGINT NOT NULL, -- of the next mail; 0: none waits
  sent_at       BIGINT NOT NULL, -- the last mail with notices
  failures      BIGINT NOT NULL, -- in a row
  failing_since BIGINT NOT NULL, -- 0: the last attempt succeeded
  updated_at    BIGINT NOT NULL,
  KEY notice_people_due (due_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS notice_people;
DROP TABLE IF EXISTS notices;
