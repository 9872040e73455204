-- What a move of the installation (0017) keeps for its operator: why an instance cannot act by an epoch yet, who has explained a mismatch
-- and how, how fast rows and contents may be brought, and how far the dropping of the old side is. None of it is itself moved.
-- Undo: drop them, when no move is under way.
-- +goose Up
CREATE TABLE migration_waits (
  instance INTEGER NOT NULL PRIMARY KEY, -- generation of the start
  epoch    INTEGER NOT NULL, -- that it has heard of, and does not acknowledge in migration_acks
  why      TEXT    NOT NULL,
  seen_at  INTEGER NOT NULL
);

CREATE TABLE migration_explained (
  mismatch INTEGER NOT NULL PRIMARY KEY, -- id in migration_mismatches
  who      TEXT    NOT NULL, -- a user's name, or empty: a comparison that was equal
  why      TEXT    NOT NULL,
  at       INTEGER NOT NULL
);

-- On the primary; a switch carries it over.
CREATE TABLE migration_notes (
  name  TEXT NOT NULL PRIMARY KEY, -- pace | old
  value TEXT NOT NULL -- JSON
) WITHOUT ROWID;

-- +goose Down
DROP TABLE migration_notes;
DROP TABLE migration_explained;
DROP TABLE migration_waits;
