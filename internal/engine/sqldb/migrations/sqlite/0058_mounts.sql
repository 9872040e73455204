-- What the receiver of something that is shared by name has made of it: another name, or out of sight. Most have no row.
-- Read by user (with what is shared with somebody, by the key of both), and by node (what goes with it).
-- Undo: drop the table; what was renamed or hidden is then shown as its owner calls it.
-- +goose Up
CREATE TABLE mounts (
  node_id    TEXT    NOT NULL,
  user_id    TEXT    NOT NULL, -- the receiver
  name       TEXT    NOT NULL, -- '': as the owner calls it
  hidden     INTEGER NOT NULL, -- 1: not in the list unless it is asked for
  updated_at INTEGER NOT NULL,
  PRIMARY KEY (node_id, user_id)
) WITHOUT ROWID;
CREATE INDEX mounts_user ON mounts (user_id, node_id);

-- +goose Down
DROP TABLE mounts;
