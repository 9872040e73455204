-- What clients of WebDAV keep beside the files: locks, and properties of their own.
-- dav_locks is read by node (what holds at it and above it), by account (whether there is any, and which lie below a folder), and by
-- its end. dav_properties is read by node, its key; the sum of an account is read from dav_properties_account alone.
-- Undo: drop the tables; nobody holds a lock then, and the properties are lost.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS dav_locks (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- its token is urn:uuid:ID
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that of the node
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  scope      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- exclusive | shared
  deep       BIGINT NOT NULL, -- 1: what is below the folder, too
  made       BIGINT NOT NULL, -- 1: the node is a file that the lock has made
  owner      VARBINARY(2048) NOT NULL, -- what the client says of itself, XML
  lasts      BIGINT NOT NULL, -- ms, from each refresh on
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  KEY dav_locks_node (node_id),
  KEY dav_locks_account (account_id, expires_at),
  KEY dav_locks_end (expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dav_properties (
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  space      VARBINARY(255) NOT NULL, -- the namespace; may be empty
  name       VARBINARY(255) NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- that of the node
  value      MEDIUMBLOB NOT NULL, -- the XML inside the element
  size       BIGINT NOT NULL, -- bytes of the three texts
  PRIMARY KEY (node_id, space, name),
  KEY dav_properties_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS dav_properties;
DROP TABLE IF EXISTS dav_locks;
