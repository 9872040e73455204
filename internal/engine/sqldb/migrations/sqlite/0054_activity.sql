-- What happened: one row for each effect, written by its transaction, together with the others of it in one statement. It is what
-- people read as activity and what is given out as events, in the order of ids: those of one account commit in that order, since
-- whoever writes one holds the lock on the account's ledger.
-- Each number of trees.seq has one row (seq), from the first one that is kept: so what is missing can be told.
-- Three indexes are what it costs: of the account (a page, what is given out), of the node, and of the folder that it is in.
-- Undo: drop the table; nobody knows any more who did what.
-- +goose Up
CREATE TABLE activity (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  salt       INTEGER NOT NULL, -- random: an id that a restored backup gives out once more is another event
  account_id TEXT    NOT NULL,
  seq        INTEGER NOT NULL, -- trees.seq of a change of a node; 0: it is about something else
  at         INTEGER NOT NULL,
  verb       TEXT    NOT NULL,
  user_id    TEXT    NOT NULL, -- '': the program itself, or somebody who has no account
  session_id TEXT    NOT NULL, -- the login or token; '' where it is not known
  head       TEXT    NOT NULL, -- how it came: api, tus, draft, link
  address    TEXT    NOT NULL,
  node_id    TEXT    NOT NULL, -- '': it is about none
  folder_id  TEXT    NOT NULL, -- that the node is in
  name       TEXT    NOT NULL, -- of the node, or of what it is about
  data       TEXT    NOT NULL  -- JSON: what there was before, sizes, versions
);
CREATE INDEX activity_account ON activity (account_id, id);
CREATE INDEX activity_node ON activity (node_id, id);
CREATE INDEX activity_folder ON activity (folder_id, id);

-- +goose Down
DROP TABLE activity;
