-- An account's tree. A node keeps its id for life. A trashed node keeps its place: only the top of what was trashed carries
-- trashed_at, and its slot is freed for others. A node that an operation owns is on its way in (a copy) or out (a purge).
-- Undo: drop the tables; the files of all accounts are then released by the next audit, so restore a backup instead.
-- +goose Up
CREATE TABLE trees (
  account_id TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
  root_id    TEXT    NOT NULL,
  seq        INTEGER NOT NULL, -- the last change of the tree
  forgotten  INTEGER NOT NULL DEFAULT 0, -- tombstones up to this seq were dropped: a feed that is older is incomplete
  node_count INTEGER NOT NULL -- all nodes but the root, trash included
) WITHOUT ROWID;

CREATE TABLE nodes (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL REFERENCES accounts (id),
  parent_id  TEXT    REFERENCES nodes (id), -- NULL: the root
  name       TEXT    NOT NULL,
  name_fold  TEXT    NOT NULL,
  slot       TEXT    NOT NULL, -- the name while live, "/<id>" while trashed: one live name per folder
  type       TEXT    NOT NULL, -- file | folder
  version_id TEXT, -- the current version of a file
  mtime      INTEGER NOT NULL,
  rev        INTEGER NOT NULL, -- +1 at every change of the node
  seq        INTEGER NOT NULL, -- trees.seq of its last change
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  trashed_at INTEGER NOT NULL DEFAULT 0,
  operation_id TEXT -- the operation that owns a trashed node: not in the trash, cannot be restored
) WITHOUT ROWID;
CREATE UNIQUE INDEX nodes_slot ON nodes (parent_id, slot);
CREATE INDEX nodes_seq ON nodes (account_id, seq);
CREATE INDEX nodes_trash ON nodes (account_id, trashed_at) WHERE trashed_at > 0;

CREATE TABLE versions (
  id         TEXT    NOT NULL PRIMARY KEY,
  node_id    TEXT    NOT NULL REFERENCES nodes (id),
  account_id TEXT    NOT NULL,
  blob_id    TEXT    NOT NULL REFERENCES blobs (id),
  size       INTEGER NOT NULL,
  mtime      INTEGER NOT NULL,
  mime       TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX versions_node ON versions (node_id, id);
CREATE INDEX versions_blob ON versions (blob_id);
CREATE INDEX versions_account ON versions (account_id, size);

CREATE TABLE tombstones (
  account_id TEXT    NOT NULL,
  seq        INTEGER NOT NULL,
  node_id    TEXT    NOT NULL,
  deleted_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, seq)
) WITHOUT ROWID;
CREATE INDEX tombstones_node ON tombstones (node_id);

CREATE TABLE operations (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  args       TEXT    NOT NULL, -- JSON: what to do, and how far it came
  state      TEXT    NOT NULL, -- running | done | failed
  done       INTEGER NOT NULL DEFAULT 0, -- nodes dealt with
  total      INTEGER NOT NULL DEFAULT 0, -- nodes known so far
  error      TEXT    NOT NULL DEFAULT '', -- problem code of a failed one
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX operations_state ON operations (state, id);

-- +goose Down
DROP TABLE operations;
DROP TABLE tombstones;
DROP TABLE versions;
DROP TABLE nodes;
DROP TABLE trees;
