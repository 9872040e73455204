-- Creations that must not happen twice: the key, the effect and the response are one transaction.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS idempotency (
  user_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  method      VARBINARY(16)  NOT NULL,
  route       VARBINARY(255) NOT NULL,
  `key`       VARBINARY(255) NOT NULL,
  fingerprint BINARY(32)     NOT NULL, -- SHA-256 of path and body
  status      BIGINT         NOT NULL,
  body        MEDIUMBLOB     NOT NULL,
  created_at  BIGINT         NOT NULL,
  PRIMARY KEY (user_id, method, route, `key`),
  KEY idempotency_age (created_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS idempotency;
