-- What was deleted and is still on the disk, by the account that deleted it. The quota bounds it (Q6): else somebody puts and deletes a
-- file again and again, and fills the disk within the time that released files stay. owed is the sum of owed_files of each account,
-- so that an upload reads one row and not as many as were deleted. Files released before this migration are owed by nobody.
-- Undo: drop both; deleted files then count for nobody until they are gone.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS owed_files (
  file       VARBINARY(255) NOT NULL PRIMARY KEY, -- of released
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT NOT NULL,
  KEY owed_files_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS owed (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  size       BIGINT NOT NULL CHECK (size >= 0)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS owed;
DROP TABLE IF EXISTS owed_files;
