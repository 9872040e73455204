-- The stream without a broker: records are written by the transaction of the change they tell of, consumers keep a cursor,
-- a record whose handler failed waits in deliveries for its level's delay, and ends in dead_letters.
-- Undo: drop the tables; records that nobody has handled yet are lost, the states they tell of are not.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS outbox (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, -- the offset; a smaller one may become visible after a larger one
  event_id   VARBINARY(255) NOT NULL, -- of the event: what is published once cannot be published again
  topic      VARBINARY(128) NOT NULL,
  `key`      VARBINARY(64)  NOT NULL, -- ordering key: the account, or ''
  event      MEDIUMTEXT     NOT NULL, -- CloudEvents 1.0 JSON
  created_at BIGINT         NOT NULL,
  sent_at    BIGINT, -- when a relay had sent it to a broker; NULL: not sent
  UNIQUE KEY outbox_event (event_id),
  KEY outbox_topic (topic), -- and the id, which every index ends with
  KEY outbox_unsent (sent_at) -- in the order of ids
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cursors (
  consumer VARBINARY(128) NOT NULL,
  topic    VARBINARY(128) NOT NULL,
  position BIGINT         NOT NULL, -- the last offset that is settled
  PRIMARY KEY (consumer, topic),
  KEY cursors_behind (topic, position) -- how far outbox may be trimmed
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS deliveries (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  consumer   VARBINARY(128) NOT NULL,
  topic      VARBINARY(128) NOT NULL,
  `key`      VARBINARY(64)  NOT NULL,
  event      MEDIUMTEXT     NOT NULL,
  failures   BIGINT         NOT NULL, -- 0 after a replay
  kind       VARBINARY(64)  NOT NULL, -- of the last failure: the code of a drive.Kind
  error      MEDIUMTEXT     NOT NULL,
  not_before BIGINT         NOT NULL,
  KEY deliveries_due (consumer, topic, not_before)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dead_letters (
  id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  consumer VARBINARY(128) NOT NULL, -- who failed, and who gets it when it is replayed
  topic    VARBINARY(128) NOT NULL,
  `key`    VARBINARY(64)  NOT NULL,
  event    MEDIUMTEXT     NOT NULL,
  failures BIGINT         NOT NULL,
  kind     VARBINARY(64)  NOT NULL,
  error    MEDIUMTEXT     NOT NULL,
  died_at  BIGINT         NOT NULL,
  event_id VARBINARY(255), -- of a letter that came from a broker: it is taken over once
  UNIQUE KEY dead_letters_event (consumer, event_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS dead_letters;
DROP TABLE IF EXISTS deliveries;
DROP TABLE IF EXISTS cursors;
DROP TABLE IF EXISTS outbox;
