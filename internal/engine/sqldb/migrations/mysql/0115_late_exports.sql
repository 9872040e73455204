-- When the owner of a batch was told that it runs for longer than expected; 0: not told.
-- Undo: drop index and column; nobody is told then.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'exports' AND column_name = 'late_at') = 0,
  'ALTER TABLE exports ADD COLUMN late_at BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'exports' AND index_name = 'exports_begun') = 0,
  'CREATE INDEX exports_begun ON exports (state, begun_at)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'exports' AND index_name = 'exports_begun') > 0,
  'DROP INDEX exports_begun ON exports', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'exports' AND column_name = 'late_at') > 0,
  'ALTER TABLE exports DROP COLUMN late_at', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
