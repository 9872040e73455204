-- What the queue knew of a timer when it fired: how often it had been pushed back and when last, its shard and its slice.
-- Undo: drop the columns; the way of a timer is shown without them.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'timer_steps' AND column_name = 'push_backs') = 0,
  'ALTER TABLE timer_steps ADD COLUMN push_backs BIGINT NOT NULL DEFAULT 0, ADD COLUMN pushed_at BIGINT NOT NULL DEFAULT 0, ADD COLUMN shard VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '''', ADD COLUMN slice VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''''', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'timer_steps' AND column_name = 'push_backs') > 0,
  'ALTER TABLE timer_steps DROP COLUMN push_backs, DROP COLUMN pushed_at, DROP COLUMN shard, DROP COLUMN slice', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
