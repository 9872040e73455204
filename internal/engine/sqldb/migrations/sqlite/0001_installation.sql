-- What identifies this installation: its id, the generation raised at each start, secrets for signing.
-- Undo: drop the table; the blobs' mark then no longer matches and serve refuses to start.
-- +goose Up
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE meta;
