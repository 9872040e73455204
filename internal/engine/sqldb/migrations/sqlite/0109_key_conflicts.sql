-- Creations that were refused because their key had been used for another request, until a person settles them.
-- Undo: drop the table; a refusal is told to the client alone then.
-- +goose Up
CREATE TABLE key_conflicts (
  id          TEXT    NOT NULL PRIMARY KEY,
  user_id     TEXT    NOT NULL,
  method      TEXT    NOT NULL,
  route       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL, -- SHA-256 of path and body of the request that was refused
  body        BLOB    NOT NULL,
  times       INTEGER NOT NULL,
  first_at    INTEGER NOT NULL,
  last_at     INTEGER NOT NULL,
  UNIQUE (user_id, method, route, key, fingerprint)
) WITHOUT ROWID;
CREATE INDEX key_conflicts_user ON key_conflicts (user_id, id);
CREATE INDEX key_conflicts_age ON key_conflicts (last_at);

-- +goose Down
DROP TABLE key_conflicts;
