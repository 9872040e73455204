-- An account's tree. A node keeps its id for life. A trashed node keeps its place: only the top of what was trashed carries
-- trashed_at, and its slot is freed for others. A node that an operation owns is on its way in (a copy) or out (a purge).
-- No foreign keys within the tree: each new child would lock its folder. The auditor walks every tree.
-- Undo: drop the tables; the files of all accounts are then released by the next audit, so restore a backup instead.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS trees (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  root_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL, -- the last change of the tree
  forgotten  BIGINT NOT NULL DEFAULT 0, -- tombstones up to this seq were dropped: a feed that is older is incomplete
  node_count BIGINT NOT NULL -- all nodes but the root, trash included
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS nodes (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parent_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- NULL: the root
  name       VARBINARY(255)  NOT NULL,
  name_fold  VARBINARY(1024) NOT NULL, -- folding makes some letters three
  slot       VARBINARY(255)  NOT NULL, -- the name while live, "/<id>" while trashed: one live name per folder
  type       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- file | folder
  version_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the current version of a file
  mtime      BIGINT NOT NULL,
  rev        BIGINT NOT NULL, -- +1 at every change of the node
  seq        BIGINT NOT NULL, -- trees.seq of its last change
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  trashed_at BIGINT NOT NULL DEFAULT 0,
  operation_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the operation that owns a trashed node: not in the trash, cannot be restored
  UNIQUE KEY nodes_slot (parent_id, slot),
  KEY nodes_seq (account_id, seq),
  KEY nodes_search (account_id, name_fold),
  KEY nodes_trash (account_id, trashed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS versions (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  blob_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT         NOT NULL,
  mtime      BIGINT         NOT NULL,
  mime       VARBINARY(255) NOT NULL,
  created_at BIGINT         NOT NULL,
  created_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  KEY versions_node (node_id, id),
  KEY versions_blob (blob_id),
  KEY versions_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tombstones (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  deleted_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, seq),
  KEY tombstones_node (node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS operations (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  args       LONGTEXT NOT NULL, -- JSON: what to do, and how far it came
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- running | done | failed
  done       BIGINT NOT NULL DEFAULT 0, -- nodes dealt with
  total      BIGINT NOT NULL DEFAULT 0, -- nodes known so far
  error      VARCHAR(64) NOT NULL DEFAULT '', -- problem code of a failed one
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  KEY operations_state (state, id),
  KEY operations_account (account_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS operations;
DROP TABLE IF EXISTS tombstones;
DROP TABLE IF EXISTS versions;
DROP TABLE IF EXISTS nodes;
DROP TABLE IF EXISTS trees;
