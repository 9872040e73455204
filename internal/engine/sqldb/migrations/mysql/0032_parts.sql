-- A list that is too long for one zip becomes several batches: a row says of each which part of which set it is. A batch that is alone has
-- none.
-- Undo: drop the table; the parts are then batches of the same name.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS export_parts (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  set_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the first of them
  part      BIGINT NOT NULL, -- from 1
  parts     BIGINT NOT NULL,
  KEY export_parts_set (set_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS export_parts;
