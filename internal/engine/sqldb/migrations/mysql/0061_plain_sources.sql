-- A source may take in everything that lands in its folder, without a manifest: its rules say so, and this column, by which those who
-- gather such files find it. A bundle that was gathered has the id of its own folder as meta_id.
-- A column cannot be added twice, and DDL cannot be taken back: each is added if it is not there.
-- Undo: drop index and column; what was gathered stays, and files without a manifest are not taken in any more.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sources' AND column_name = 'plain') = 0,
  'ALTER TABLE sources ADD COLUMN plain BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sources' AND index_name = 'sources_plain') = 0,
  'CREATE INDEX sources_plain ON sources (plain, account_id, name)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'sources' AND index_name = 'sources_plain') > 0,
  'DROP INDEX sources_plain ON sources', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sources' AND column_name = 'plain') > 0,
  'ALTER TABLE sources DROP COLUMN plain', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
