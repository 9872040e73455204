-- A token says for which heads (protocols) it is good: a bit each, as drive.Heads has them. Those that exist are for the native API.
-- A column cannot be added twice, and DDL cannot be taken back: it is added if it is not there.
-- Undo: drop the column; every token is then good for the native API, and for nothing else.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sessions' AND column_name = 'heads') = 0,
  'ALTER TABLE sessions ADD COLUMN heads BIGINT NOT NULL DEFAULT 1', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sessions' AND column_name = 'heads') > 0,
  'ALTER TABLE sessions DROP COLUMN heads', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
