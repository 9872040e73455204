-- Accounts take turns with the places in which exports are collected: a row says when the last export of an account was taken up. What
-- anybody could say of the priority of an export is forgotten: above normal it is an administrator's word now.
-- Undo: drop the table; the order of the next few exports is another one.
-- +goose Up
CREATE TABLE export_turns (
  account_id TEXT    NOT NULL PRIMARY KEY,
  turn_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX export_turns_at ON export_turns (turn_at);
UPDATE exports SET priority = 0 WHERE priority > 0 AND state IN ('pending', 'aborted', 'running');
UPDATE export_schedules SET priority = 0 WHERE priority > 0;

-- +goose Down
DROP TABLE export_turns;
