-- Indexes for what housekeeping looks for, so that it costs what is due and not what is there. An upload pays one more entry when
-- it begins and one when it ends, of some 50 bytes; an operation or a file of a collect link likewise.
--   uploads_ended     without it all rows that have ended are read each hour
--   operations_ended  the same of operations
--   collected_open    without it every collect link is asked for each hour
-- An index cannot be added twice, and DDL cannot be taken back: each is added if it is not there. A server adds them while rows are
-- read and written; a million rows take some seconds.
-- Undo: drop them; nothing is lost but time.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'uploads' AND index_name = 'uploads_ended') = 0,
  'CREATE INDEX uploads_ended ON uploads (ended_at)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'operations' AND index_name = 'operations_ended') = 0,
  'CREATE INDEX operations_ended ON operations (state, updated_at)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'collected' AND index_name = 'collected_open') = 0,
  'CREATE INDEX collected_open ON collected (state, collect_id)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'collected' AND index_name = 'collected_open') > 0,
  'DROP INDEX collected_open ON collected', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'operations' AND index_name = 'operations_ended') > 0,
  'DROP INDEX operations_ended ON operations', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'uploads' AND index_name = 'uploads_ended') > 0,
  'DROP INDEX uploads_ended ON uploads', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
