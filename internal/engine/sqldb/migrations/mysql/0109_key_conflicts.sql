-- Creations that were refused because their key had been used for another request, until a person settles them.
-- Undo: drop the table; a refusal is told to the client alone then.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS key_conflicts (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  method      VARBINARY(16)  NOT NULL,
  route       VARBINARY(255) NOT NULL,
  `key`       VARBINARY(255) NOT NULL,
  fingerprint BINARY(32)     NOT NULL, -- SHA-256 of path and body of the request that was refused
  body        BLOB           NOT NULL,
  times       BIGINT         NOT NULL,
  first_at    BIGINT         NOT NULL,
  last_at     BIGINT         NOT NULL,
  UNIQUE KEY key_conflicts_request (user_id, method, route, `key`, fingerprint),
  KEY key_conflicts_user (user_id, id),
  KEY key_conflicts_age (last_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS key_conflicts;
