-- Who may see and change what is another's: spaces, whose tree and ledger belong to nobody; groups of users; grants, each of a role
-- at a node to a user or a group.
-- grants is read by node (what decides at it and above it: the key), by who has them (what is shared with somebody, and which
-- grants hide something in a listing), and by account (what is shared of it, and what goes with it).
-- Undo: drop the tables; spaces are then accounts without anybody, so move what is in them first.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS spaces (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  root_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that of its tree, which never changes
  name       VARBINARY(255) NOT NULL,
  slot       VARBINARY(1024) NOT NULL, -- the folded name; "/<id>" once deleted, so that the name is free again
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- active | archived | deleted
  created_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  deleted_at BIGINT NOT NULL DEFAULT 0,
  UNIQUE KEY spaces_slot (slot),
  KEY spaces_deleted (deleted_at),
  CONSTRAINT spaces_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS user_groups (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  name       VARBINARY(255) NOT NULL,
  slot       VARBINARY(1024) NOT NULL, -- the folded name
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE KEY user_groups_slot (slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS group_members (
  group_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (group_id, user_id),
  KEY group_members_user (user_id, group_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS grants (
  node_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  principal_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- a user or a group
  account_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that of the node
  kind         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- user | group
  role         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- none | viewer | uploader | editor | manager
  granted_by   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  note         VARBINARY(1024) NOT NULL,
  created_at   BIGINT NOT NULL,
  updated_at   BIGINT NOT NULL,
  expires_at   BIGINT NOT NULL, -- 0: never
  PRIMARY KEY (node_id, principal_id),
  KEY grants_principal (principal_id, account_id, node_id),
  KEY grants_account (account_id, node_id, principal_id),
  KEY grants_end (expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS grants;
DROP TABLE IF EXISTS group_members;
DROP TABLE IF EXISTS user_groups;
DROP TABLE IF EXISTS spaces;
