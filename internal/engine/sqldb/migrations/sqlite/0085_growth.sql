-- How an installation grows: a row a day, written each hour by the instance that takes figures. Read by day, its key.
-- Undo: drop the table; the days before are not known then.
-- +goose Up
CREATE TABLE growth (
  day        TEXT    NOT NULL PRIMARY KEY, -- 2026-11-25, in UTC
  at         INTEGER NOT NULL, -- when the figures of the day were last taken
  accounts   INTEGER NOT NULL, -- that have a ledger: people and spaces
  finished   INTEGER NOT NULL, -- bytes charged to all of them for files, versions and the trash
  unfinished INTEGER NOT NULL, -- bytes charged to all of them for unfinished uploads
  free       INTEGER -- bytes left in the store; NULL: the store does not know
) WITHOUT ROWID;

-- +goose Down
DROP TABLE growth;
