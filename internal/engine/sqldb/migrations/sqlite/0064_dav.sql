-- What clients of WebDAV keep beside the files: locks, and properties of their own.
-- dav_locks is read by node (what holds at it and above it), by account (whether there is any, and which lie below a folder), and by
-- its end. dav_properties is read by node, its key; the sum of an account is read from dav_properties_account alone.
-- Undo: drop the tables; nobody holds a lock then, and the properties are lost.
-- +goose Up
CREATE TABLE dav_locks (
  id         TEXT    NOT NULL PRIMARY KEY, -- its token is urn:uuid:ID
  node_id    TEXT    NOT NULL,
  account_id TEXT    NOT NULL, -- that of the node
  user_id    TEXT    NOT NULL,
  scope      TEXT    NOT NULL, -- exclusive | shared
  deep       INTEGER NOT NULL, -- 1: what is below the folder, too
  made       INTEGER NOT NULL, -- 1: the node is a file that the lock has made
  owner      TEXT    NOT NULL, -- what the client says of itself, XML
  lasts      INTEGER NOT NULL, -- ms, from each refresh on
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX dav_locks_node ON dav_locks (node_id);
CREATE INDEX dav_locks_account ON dav_locks (account_id, expires_at);
CREATE INDEX dav_locks_end ON dav_locks (expires_at);

CREATE TABLE dav_properties (
  node_id    TEXT    NOT NULL,
  space      TEXT    NOT NULL, -- the namespace; may be empty
  name       TEXT    NOT NULL,
  account_id TEXT    NOT NULL, -- that of the node
  value      TEXT    NOT NULL, -- the XML inside the element
  size       INTEGER NOT NULL, -- bytes of the three texts
  PRIMARY KEY (node_id, space, name)
) WITHOUT ROWID;
CREATE INDEX dav_properties_account ON dav_properties (account_id, size);

-- +goose Down
DROP TABLE dav_properties;
DROP TABLE dav_locks;
