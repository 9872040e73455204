-- A relay sends what is in the outbox to a broker and marks it (outbox.sent_at, dead_letters.event_id: with their tables in 0008,
-- because a column cannot be added twice and DDL cannot be taken back). drains holds how far each partition of a log of dead
-- letters is taken over.
-- Undo: drop it; the dead letters of the broker are then read once more, and those that are here already do not come twice.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS drains (
  log      VARBINARY(255) NOT NULL, -- the topic and its id: one that was made again is another
  shard    BIGINT NOT NULL, -- its partition
  position BIGINT NOT NULL, -- the last offset that was taken over
  PRIMARY KEY (log, shard)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS drains;
