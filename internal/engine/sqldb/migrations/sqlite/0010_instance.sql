-- The processes that serve the installation, and which of them does what only one does at a time. A row of instances is a start: its
-- generation names it for ever. An instance is alive while it was seen within its time and has not ended; ended is for good.
-- Undo: drop both; the next start makes its row anew.
-- +goose Up
CREATE TABLE instances (
  generation INTEGER NOT NULL PRIMARY KEY, -- of meta, raised at each start
  id         TEXT    NOT NULL,             -- of its data directory: a new start of the same directory ends the old one
  host       TEXT    NOT NULL,
  roles      TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  joined_at  INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL, -- the last heartbeat, by the database's clock
  ended_at   INTEGER           -- it has left, or was declared dead: it may write nothing more
);

CREATE TABLE leases (
  name       TEXT    NOT NULL PRIMARY KEY,
  generation INTEGER NOT NULL, -- of the holder; 0: nobody
  epoch      INTEGER NOT NULL, -- raised each time it is taken
  taken_at   INTEGER NOT NULL
);

-- +goose Down
DROP TABLE leases;
DROP TABLE instances;
