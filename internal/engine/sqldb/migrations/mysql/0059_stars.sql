-- The files and folders that a user has starred.
-- stars is read by node (which rows are left of what was deleted for good: the key) and by user (the list, the newest first).
-- Undo: drop the table; nothing is starred then.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS stars (
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (node_id, user_id),
  KEY stars_user (user_id, created_at, node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS stars;
