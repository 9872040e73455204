-- The stream on one machine: records are written by the transaction of the change they tell of, consumers keep a cursor,
-- a record whose handler failed waits in deliveries for its level's delay, and ends in dead_letters.
-- Undo: drop the tables; records that nobody has handled yet are lost, the states they tell of are not.
-- +goose Up
CREATE TABLE outbox (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- the offset; one writer, so offsets become visible in their order
  event_id   TEXT    NOT NULL UNIQUE,           -- of the event: what is published once cannot be published again
  topic      TEXT    NOT NULL,
  key        TEXT    NOT NULL, -- ordering key: the account, or ''
  event      TEXT    NOT NULL, -- CloudEvents 1.0 JSON
  created_at INTEGER NOT NULL
);
CREATE INDEX outbox_topic ON outbox (topic); -- and the id, which every index ends with

CREATE TABLE cursors (
  consumer TEXT    NOT NULL,
  topic    TEXT    NOT NULL,
  position INTEGER NOT NULL, -- the last offset that is settled
  PRIMARY KEY (consumer, topic)
) WITHOUT ROWID;
CREATE INDEX cursors_behind ON cursors (topic, position); -- how far outbox may be trimmed

CREATE TABLE deliveries (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer   TEXT    NOT NULL,
  topic      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  event      TEXT    NOT NULL,
  failures   INTEGER NOT NULL, -- 0 after a replay
  kind       TEXT    NOT NULL, -- of the last failure: the code of a drive.Kind
  error      TEXT    NOT NULL,
  not_before INTEGER NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (consumer, topic, not_before);

CREATE TABLE dead_letters (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer TEXT    NOT NULL, -- who failed, and who gets it when it is replayed
  topic    TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  event    TEXT    NOT NULL,
  failures INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  error    TEXT    NOT NULL,
  died_at  INTEGER NOT NULL
);

-- +goose Down
DROP TABLE dead_letters;
DROP TABLE deliveries;
DROP TABLE cursors;
DROP TABLE outbox;
