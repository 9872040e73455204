-- How far the last export of a folder with a filter went, so that the next one can have what has changed since. A row is written when an
-- export is sealed, with the tree's number of the moment in which its list was made.
-- Undo: drop the table; the next export of each folder has everything.
-- +goose Up
CREATE TABLE export_marks (
  account_id TEXT    NOT NULL,
  mark       TEXT    NOT NULL, -- SHA-256 of the folder and of what the filter says beside times
  seq        INTEGER NOT NULL, -- of the account's tree
  at         INTEGER NOT NULL, -- when that was
  PRIMARY KEY (account_id, mark)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE export_marks;
