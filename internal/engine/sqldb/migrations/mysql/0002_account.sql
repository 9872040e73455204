-- People and what they log in with. An account owns a ledger and a tree: a person's today, a team's later.
-- Foreign keys are kept to rows that hardly ever change (accounts, users); a check of one locks the row that it refers to.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS accounts (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  created_at BIGINT   NOT NULL -- Unix ms, as all *_at columns
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS users (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  slot       VARBINARY(255) NOT NULL, -- the folded name; "/<id>" once deleted, so that the name is free again
  password   VARCHAR(255)   NOT NULL,
  admin      TINYINT        NOT NULL,
  state      VARCHAR(16)    NOT NULL, -- active | disabled | deleted
  link_epoch BIGINT         NOT NULL DEFAULT 0, -- raised by a password change: voids signed links
  created_at BIGINT         NOT NULL,
  updated_at BIGINT         NOT NULL,
  deleted_at BIGINT         NOT NULL DEFAULT 0,
  UNIQUE KEY users_slot (slot),
  KEY users_account (account_id),
  KEY users_deleted (deleted_at),
  KEY users_admin (admin, state), -- the look for another administrator locks what it reads: it must not read everybody
  CONSTRAINT users_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sessions (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16)    NOT NULL, -- login | token
  name       VARBINARY(512) NOT NULL,
  secret     BINARY(32)     NOT NULL, -- SHA-256 of the bearer secret
  scopes     BIGINT         NOT NULL,
  created_at BIGINT         NOT NULL,
  seen_at    BIGINT         NOT NULL,
  expires_at BIGINT         NOT NULL, -- 0: never (tokens)
  UNIQUE KEY sessions_secret (secret),
  KEY sessions_user (user_id, kind),
  KEY sessions_expiry (expires_at),
  CONSTRAINT sessions_users FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS sessions;
DROP TABLE IF EXISTS users;
DROP TABLE IF EXISTS accounts;
