-- Accounts take turns with the places in which exports are collected: a row says when the last export of an account was taken up. What
-- anybody could say of the priority of an export is forgotten: above normal it is an administrator's word now.
-- Undo: drop the table; the order of the next few exports is another one.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS export_turns (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  turn_at    BIGINT NOT NULL,
  KEY export_turns_at (turn_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
UPDATE exports SET priority = 0 WHERE priority > 0 AND state IN ('pending', 'aborted', 'running');
UPDATE export_schedules SET priority = 0 WHERE priority > 0;

-- +goose Down
DROP TABLE IF EXISTS export_turns;
