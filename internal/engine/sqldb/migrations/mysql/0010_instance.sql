-- The processes that serve the installation, and which of them does what only one does at a time. A row of instances is a start: its
-- generation names it for ever. An instance is alive while it was seen within its time and has not ended; ended is for good.
-- Undo: drop both; the next start makes its row anew.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS instances (
  generation BIGINT NOT NULL PRIMARY KEY, -- of meta, raised at each start
  id         VARBINARY(64)  NOT NULL, -- of its data directory: a new start of the same directory ends the old one
  host       VARBINARY(255) NOT NULL,
  roles      VARBINARY(255) NOT NULL,
  version    VARBINARY(255) NOT NULL,
  joined_at  BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL, -- the last heartbeat, by the database's clock
  ended_at   BIGINT           -- it has left, or was declared dead: it may write nothing more
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS leases (
  name       VARBINARY(128) NOT NULL PRIMARY KEY,
  generation BIGINT NOT NULL, -- of the holder; 0: nobody
  epoch      BIGINT NOT NULL, -- raised each time it is taken
  taken_at   BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS leases;
DROP TABLE IF EXISTS instances;
