-- Work on many nodes that one request asks for (trash, restore, delete, move, copy; shares, too): a row for the work and how far it
-- came, and its items in pieces. What became of each item stands beside it, and how it was before: failures are listed and tried
-- again, and the work is undone, from these rows. They are kept for a week after the end.
-- bulks_ended and bulks_state are partial, so that housekeeping and a start read what they look for.
-- Undo: drop the tables; work that runs stops where it is, and none is undone any more.
-- +goose Up
CREATE TABLE bulks (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  kind       TEXT    NOT NULL, -- trash | restore | delete | move | copy | unshare
  parent_id  TEXT,             -- where it goes
  conflict   TEXT    NOT NULL,
  source_id  TEXT,             -- the work that this one undoes
  filled     INTEGER NOT NULL, -- of that, how many pieces are still to be taken over
  undone_by  TEXT,
  state      TEXT    NOT NULL, -- running | done | cancelled
  stopping   INTEGER NOT NULL, -- 1: it ends when what is in the middle is through
  piece      INTEGER NOT NULL, -- where it is
  item       INTEGER NOT NULL, -- within the piece
  child_id   TEXT,             -- the operation that works on that item
  done       INTEGER NOT NULL, -- items dealt with, failures included
  failed     INTEGER NOT NULL,
  total      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX bulks_account ON bulks (account_id, id);
CREATE INDEX bulks_state ON bulks (state, id) WHERE state = 'running';
CREATE INDEX bulks_ended ON bulks (state, updated_at) WHERE state IN ('done', 'cancelled');

CREATE TABLE bulk_items (
  bulk_id    TEXT    NOT NULL,
  n          INTEGER NOT NULL,
  account_id TEXT    NOT NULL,
  items      BLOB    NOT NULL, -- ids, 16 bytes each
  record     BLOB    NOT NULL, -- JSON: what became of each; empty: nothing yet
  unsettled  INTEGER NOT NULL, -- items that wait or failed
  failed     INTEGER NOT NULL,
  PRIMARY KEY (bulk_id, n)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE bulk_items;
DROP TABLE bulks;
