-- What the receiver of something that is shared by name has made of it: another name, or out of sight. Most have no row.
-- Read by user (with what is shared with somebody, by the key of both), and by node (what goes with it).
-- Undo: drop the table; what was renamed or hidden is then shown as its owner calls it.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS mounts (
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the receiver
  name       VARBINARY(255) NOT NULL, -- '': as the owner calls it
  hidden     TINYINT NOT NULL, -- 1: not in the list unless it is asked for
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (node_id, user_id),
  KEY mounts_user (user_id, node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS mounts;
