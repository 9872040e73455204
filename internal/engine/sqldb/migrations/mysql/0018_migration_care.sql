-- What a move of the installation (0017) keeps for its operator: why an instance cannot act by an epoch yet, who has explained a mismatch
-- and how, how fast rows and contents may be brought, and how far the dropping of the old side is. None of it is itself moved.
-- Undo: drop them, when no move is under way.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS migration_waits (
  instance BIGINT NOT NULL PRIMARY KEY, -- generation of the start
  epoch    BIGINT NOT NULL, -- that it has heard of, and does not acknowledge in migration_acks
  why      TEXT   NOT NULL,
  seen_at  BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_explained (
  mismatch BIGINT         NOT NULL PRIMARY KEY, -- id in migration_mismatches
  who      VARBINARY(255) NOT NULL, -- a user's name, or empty: a comparison that was equal
  why      TEXT           NOT NULL,
  at       BIGINT         NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- On the primary; a switch carries it over.
CREATE TABLE IF NOT EXISTS migration_notes (
  name  VARBINARY(64) NOT NULL PRIMARY KEY, -- pace | old
  value TEXT          NOT NULL -- JSON
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS migration_notes;
DROP TABLE IF EXISTS migration_explained;
DROP TABLE IF EXISTS migration_waits;
