-- What happened: one row for each effect, written by its transaction, together with the others of it in one statement. It is what
-- people read as activity and what is given out as events, in the order of ids: those of one account commit in that order, since
-- whoever writes one holds the lock on the account's ledger.
-- Each number of trees.seq has one row (seq), from the first one that is kept: so what is missing can be told.
-- Three indexes are what it costs: of the account (a page, what is given out), of the node, and of the folder that it is in.
-- Undo: drop the table; nobody knows any more who did what.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS activity (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  salt       BIGINT NOT NULL, -- random: an id that a restored backup gives out once more is another event
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL, -- trees.seq of a change of a node; 0: it is about something else
  at         BIGINT NOT NULL,
  verb       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '': the program itself, or somebody who has no account
  session_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the login or token; '' where it is not known
  head       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- how it came: api, tus, draft, link
  address    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '': it is about none
  folder_id  VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that the node is in
  name       VARBINARY(255) NOT NULL, -- of the node, or of what it is about
  data       VARBINARY(2048) NOT NULL, -- JSON: what there was before, sizes, versions
  KEY activity_account (account_id, id),
  KEY activity_node (node_id, id),
  KEY activity_folder (folder_id, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS activity;
