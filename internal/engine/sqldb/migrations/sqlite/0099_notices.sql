-- What people are told. A notice has the id of its cause, so whoever handles the cause again tells nobody twice. A person's notices are read by
-- the key, the newest first, since ids are in the order of time; notices_at is for those that are old enough to go.
-- notice_people has how somebody wants to be told, and when a mail goes to them; most have no row. notice_people_due is partial: most wait for none.
-- Undo: drop the tables; nobody is told anything.
-- +goose Up
CREATE TABLE notices (
  user_id    TEXT    NOT NULL, -- who is told
  id         TEXT    NOT NULL, -- of the cause
  kind       TEXT    NOT NULL, -- share | role | space | group | export | collect | quota | webhook | operation
  what       TEXT    NOT NULL, -- given | changed | taken | ending | ended | ready | failed | arrived | full | disabled
  account_id TEXT    NOT NULL, -- that it is about
  node_id    TEXT    NOT NULL, -- '': it is about none
  by_id      TEXT    NOT NULL, -- who did it; '': the program
  data       TEXT    NOT NULL, -- JSON
  at         INTEGER NOT NULL,
  read_at    INTEGER NOT NULL, -- 0: not yet
  mail       INTEGER NOT NULL, -- 1: it waits to be mailed
  PRIMARY KEY (user_id, id)
) WITHOUT ROWID;
CREATE INDEX notices_at ON notices (at);

CREATE TABLE notice_people (
  user_id       TEXT    NOT NULL PRIMARY KEY,
  address       TEXT    NOT NULL, -- of mail; '': none
  state         TEXT    NOT NULL, -- none | asked | confirmed | refused
  code          TEXT    NOT NULL, -- that confirms the address; '': none waits
  code_until    INTEGER NOT NULL,
  code_tries    INTEGER NOT NULL, -- wrong ones
  codes         INTEGER NOT NULL, -- that were asked for since codes_since
  codes_since   INTEGER NOT NULL,
  language      TEXT    NOT NULL, -- en | zh-CN
  channels      TEXT    NOT NULL, -- JSON: kind to off | page | mail; what is not there is mail
  due_at        INTEGER NOT NULL, -- of the next mail; 0: none waits
  sent_at       INTEGER NOT NULL, -- the last mail with notices
  failures      INTEGER NOT NULL, -- in a row
  failing_since INTEGER NOT NULL, -- 0: the last attempt succeeded
  updated_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX notice_people_due ON notice_people (due_at) WHERE due_at > 0;

-- +goose Down
DROP TABLE notice_people;
DROP TABLE notices;
