-- How far the last export of a folder with a filter went, so that the next one can have what has changed since. A row is written when an
-- export is sealed, with the tree's number of the moment in which its list was made.
-- Undo: drop the table; the next export of each folder has everything.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS export_marks (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  mark       CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- SHA-256 of the folder and of what the filter says beside times
  seq        BIGINT NOT NULL, -- of the account's tree
  at         BIGINT NOT NULL, -- when that was
  PRIMARY KEY (account_id, mark)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS export_marks;
