-- A relay sends what is in the outbox to a broker and marks it: rows become visible out of the order of their ids where
-- several transactions commit at a time, so only the mark tells what is unsent. (The index that finds unmarked rows is MySQL's
-- alone: SQLite goes with no broker, and every insert would pay for it.) Dead letters that come back from a broker are taken
-- over once: drains holds how far each partition of a log is drained, event_id stops a second letter of one consumer and event.
-- Undo: drop what is added; records that no relay has sent are then read from the outbox again.
-- +goose Up
ALTER TABLE outbox ADD COLUMN sent_at INTEGER; -- NULL: not sent to a broker
ALTER TABLE dead_letters ADD COLUMN event_id TEXT; -- of a letter that came from a broker
CREATE UNIQUE INDEX dead_letters_event ON dead_letters (consumer, event_id);
CREATE TABLE drains (
  log      TEXT    NOT NULL, -- the topic and its id: one that was made again is another
  shard    INTEGER NOT NULL, -- its partition
  position INTEGER NOT NULL, -- the last offset that was taken over
  PRIMARY KEY (log, shard)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE drains;
DROP INDEX dead_letters_event;
ALTER TABLE dead_letters DROP COLUMN event_id;
ALTER TABLE outbox DROP COLUMN sent_at;
