-- Selections of files that somebody downloads as a zip: a row names the files, so that a browser can fetch the zip with a plain GET and
-- go on with it after an interruption, whichever instance answers. A row holds no content and no place of an export. It is kept for a
-- day, unless later ones of the account take its room.
-- Undo: drop the table; downloads that were interrupted begin again.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS archives (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL, -- of the directory in the zip, and of the zip
  folder_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the folder that is meant; NULL: nodes says which files and folders
  nodes      MEDIUMBLOB NOT NULL, -- their ids, 16 bytes each
  picked     BIGINT NOT NULL, -- how many
  etag       VARBINARY(128) NOT NULL, -- of the zip as it was when the row was made
  made_at    BIGINT NOT NULL,
  KEY archives_account (account_id, made_at, id, picked),
  KEY archives_made (made_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS archives;
