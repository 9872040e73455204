-- What lies below each folder: kept up by the transaction of each change, so that to ask for it, or for the folder's tag, costs a row
-- and not a walk. A folder without a row has not been added up yet; then none above it has one, up to the first in the trash. Rows of
-- folders that are there already are made when somebody asks for them first.
-- Undo: drop the table.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS folder_sums (
  folder_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  seq       BIGINT NOT NULL,
  files     BIGINT NOT NULL,
  folders   BIGINT NOT NULL,
  size      BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS folder_sums;
