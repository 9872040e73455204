-- Selections of files that somebody downloads as a zip: a row names the files, so that a browser can fetch the zip with a plain GET and
-- go on with it after an interruption, whichever instance answers. A row holds no content and no place of an export. It is kept for a
-- day, unless later ones of the account take its room.
-- Undo: drop the table; downloads that were interrupted begin again.
-- +goose Up
CREATE TABLE archives (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  name       TEXT    NOT NULL, -- of the directory in the zip, and of the zip
  folder_id  TEXT,             -- the folder that is meant; NULL: nodes says which files and folders
  nodes      BLOB    NOT NULL, -- their ids, 16 bytes each
  picked     INTEGER NOT NULL, -- how many
  etag       TEXT    NOT NULL, -- of the zip as it was when the row was made
  made_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX archives_account ON archives (account_id, made_at, id, picked);
CREATE INDEX archives_made ON archives (made_at);

-- +goose Down
DROP TABLE archives;
