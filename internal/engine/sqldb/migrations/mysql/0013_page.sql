-- What pages need. Names are searched by a scan of an index of them (nodes_search: with its table in 0005, because a key cannot be
-- added twice and DDL cannot be taken back). Preferences are what a user chose on the pages: language, theme, view. The server
-- keeps them and does not look inside.
-- Undo: drop the table.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS preferences (
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  value      LONGTEXT NOT NULL, -- a JSON object
  updated_at BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS preferences;
