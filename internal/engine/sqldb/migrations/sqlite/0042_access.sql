-- Who may see and change what is another's: spaces, whose tree and ledger belong to nobody; groups of users; grants, each of a role
-- at a node to a user or a group.
-- grants is read by node (what decides at it and above it: the key), by who has them (what is shared with somebody, and which
-- grants hide something in a listing), and by account (what is shared of it, and what goes with it). grants_end is partial:
-- most have none.
-- Undo: drop the tables; spaces are then accounts without anybody, so move what is in them first.
-- +goose Up
CREATE TABLE spaces (
  account_id TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
  root_id    TEXT    NOT NULL, -- that of its tree, which never changes
  name       TEXT    NOT NULL,
  slot       TEXT    NOT NULL UNIQUE, -- the folded name; "/<id>" once deleted, so that the name is free again
  state      TEXT    NOT NULL, -- active | archived | deleted
  created_by TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  deleted_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX spaces_deleted ON spaces (deleted_at) WHERE deleted_at > 0;

CREATE TABLE user_groups (
  id         TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  slot       TEXT    NOT NULL UNIQUE, -- the folded name
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE group_members (
  group_id   TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, user_id)
) WITHOUT ROWID;
CREATE INDEX group_members_user ON group_members (user_id, group_id);

CREATE TABLE grants (
  node_id      TEXT    NOT NULL,
  principal_id TEXT    NOT NULL, -- a user or a group
  account_id   TEXT    NOT NULL, -- that of the node
  kind         TEXT    NOT NULL, -- user | group
  role         TEXT    NOT NULL, -- none | viewer | uploader | editor | manager
  granted_by   TEXT    NOT NULL,
  note         TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL, -- 0: never
  PRIMARY KEY (node_id, principal_id)
) WITHOUT ROWID;
CREATE INDEX grants_principal ON grants (principal_id, account_id, node_id);
CREATE INDEX grants_account ON grants (account_id, node_id, principal_id);
CREATE INDEX grants_end ON grants (expires_at) WHERE expires_at > 0;

-- +goose Down
DROP TABLE grants;
DROP TABLE group_members;
DROP TABLE user_groups;
DROP TABLE spaces;
