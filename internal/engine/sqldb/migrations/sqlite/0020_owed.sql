-- What was deleted and is still on the disk, by the account that deleted it. The quota bounds it (Q6): else somebody puts and deletes a
-- file again and again, and fills the disk within the time that released files stay. owed is the sum of owed_files of each account,
-- so that an upload reads one row and not as many as were deleted. Files released before this migration are owed by nobody.
-- Undo: drop both; deleted files then count for nobody until they are gone.
-- +goose Up
CREATE TABLE owed_files (
  file       TEXT    NOT NULL PRIMARY KEY, -- of released
  account_id TEXT    NOT NULL,
  size       INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX owed_files_account ON owed_files (account_id, size);

CREATE TABLE owed (
  account_id TEXT    NOT NULL PRIMARY KEY,
  size       INTEGER NOT NULL CHECK (size >= 0)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE owed;
DROP TABLE owed_files;
