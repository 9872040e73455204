-- The way of each timer that has fired, from armed to applied, so that an administrator can see where it was held up, whichever
-- instances it passed. It is written behind the work, in batches, and what a process has not written yet dies with it: a help for
-- people, and nothing that anything is decided by. Kept for three days, and never more than a million rows.
-- Undo: drop the table; no way is shown.
-- +goose Up
CREATE TABLE timer_steps (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  timer    TEXT    NOT NULL, -- its key: kind/uuid
  gen      INTEGER NOT NULL,
  step     TEXT    NOT NULL, -- armed | fired | published | consumed | applied | snoozed | waited | failed | dead
  begun_at INTEGER NOT NULL, -- ms; of what has ended with the step
  done_at  INTEGER NOT NULL, -- ms
  delivery INTEGER NOT NULL,
  instance TEXT    NOT NULL,
  reason   TEXT    NOT NULL  -- the code of the kind of an error
);
CREATE INDEX timer_steps_timer ON timer_steps (timer, id);

-- +goose Down
DROP TABLE timer_steps;
