-- The files and folders that a user has starred.
-- stars is read by node (which rows are left of what was deleted for good: the key) and by user (the list, the newest first).
-- Undo: drop the table; nothing is starred then.
-- +goose Up
CREATE TABLE stars (
  node_id    TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (node_id, user_id)
) WITHOUT ROWID;
CREATE INDEX stars_user ON stars (user_id, created_at, node_id);

-- +goose Down
DROP TABLE stars;
