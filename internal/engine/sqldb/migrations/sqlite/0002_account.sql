-- People and what they log in with. An account owns a ledger and a tree: a person's today, a team's later.
-- Passwords are PHC strings (argon2id); of sessions and tokens only the SHA-256 of the secret is kept.
-- +goose Up
CREATE TABLE accounts (
  id         TEXT    NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL -- Unix ms, as all *_at columns
) WITHOUT ROWID;

CREATE TABLE users (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL REFERENCES accounts (id),
  name       TEXT    NOT NULL,
  slot       TEXT    NOT NULL UNIQUE, -- the folded name; "/<id>" once deleted, so that the name is free again
  password   TEXT    NOT NULL,
  admin      INTEGER NOT NULL,
  state      TEXT    NOT NULL, -- active | disabled | deleted
  link_epoch INTEGER NOT NULL DEFAULT 0, -- raised by a password change: voids signed links
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  deleted_at INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX users_account ON users (account_id);
CREATE INDEX users_deleted ON users (deleted_at) WHERE deleted_at > 0;

CREATE TABLE sessions (
  id         TEXT    NOT NULL PRIMARY KEY,
  user_id    TEXT    NOT NULL REFERENCES users (id),
  kind       TEXT    NOT NULL, -- login | token
  name       TEXT    NOT NULL,
  secret     BLOB    NOT NULL UNIQUE, -- SHA-256 of the bearer secret
  scopes     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL -- 0: never (tokens)
) WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id, kind);
CREATE INDEX sessions_expiry ON sessions (expires_at) WHERE expires_at > 0;

-- +goose Down
DROP TABLE sessions;
DROP TABLE users;
DROP TABLE accounts;
