-- What the queue knew of a timer when it fired: how often it had been pushed back and when last, its shard and its slice.
-- Undo: drop the columns; the way of a timer is shown without them.
-- +goose Up
ALTER TABLE timer_steps ADD COLUMN push_backs INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timer_steps ADD COLUMN pushed_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE timer_steps ADD COLUMN shard TEXT NOT NULL DEFAULT '';
ALTER TABLE timer_steps ADD COLUMN slice TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE timer_steps DROP COLUMN slice;
ALTER TABLE timer_steps DROP COLUMN shard;
ALTER TABLE timer_steps DROP COLUMN pushed_at;
ALTER TABLE timer_steps DROP COLUMN push_backs;
