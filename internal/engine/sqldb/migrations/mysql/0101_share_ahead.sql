-- Pieces of a download that are fetched at the same time come in any order: ahead is 1 until the first byte was asked for, which is free then.
-- A column cannot be added twice, and DDL cannot be taken back: it is added if it is not there.
-- Undo: drop the column; such a download is counted twice again.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'share_downloads' AND column_name = 'ahead') = 0,
  'ALTER TABLE share_downloads ADD COLUMN ahead TINYINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'share_downloads' AND column_name = 'ahead') > 0,
  'ALTER TABLE share_downloads DROP COLUMN ahead', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
