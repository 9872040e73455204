-- Creations that must not happen twice: the key, the effect and the response are one transaction.
-- +goose Up
CREATE TABLE idempotency (
  user_id     TEXT    NOT NULL,
  method      TEXT    NOT NULL,
  route       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL, -- SHA-256 of path and body
  status      INTEGER NOT NULL,
  body        BLOB    NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (user_id, method, route, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

-- +goose Down
DROP TABLE idempotency;
