-- The way of each timer that has fired, from armed to applied, so that an administrator can see where it was held up, whichever
-- instances it passed. It is written behind the work, in batches, and what a process has not written yet dies with it: a help for
-- people, and nothing that anything is decided by. Kept for three days, and never more than a million rows.
-- Undo: drop the table; no way is shown.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS timer_steps (
  id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  timer    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- its key: kind/uuid
  gen      BIGINT NOT NULL,
  step     VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- armed | fired | published | consumed | applied | snoozed | waited | failed | dead
  begun_at BIGINT NOT NULL, -- ms; of what has ended with the step
  done_at  BIGINT NOT NULL, -- ms
  delivery BIGINT NOT NULL,
  instance VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the code of the kind of an error
  KEY timer_steps_timer (timer, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS timer_steps;
