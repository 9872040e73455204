-- Each change of a node leaves rows for months (activity, tombstones): changed counts those of the day changed_on, UTC, in days since
-- 1970, so that a day has a limit.
-- A column cannot be added twice, and DDL cannot be taken back: they are added if they are not there.
-- Undo: drop both columns; an account may make any number of changes again.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'trees' AND column_name = 'changed_on') = 0,
  'ALTER TABLE trees ADD COLUMN changed_on BIGINT NOT NULL DEFAULT 0, ADD COLUMN changed BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'trees' AND column_name = 'changed_on') > 0,
  'ALTER TABLE trees DROP COLUMN changed_on, DROP COLUMN changed', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
