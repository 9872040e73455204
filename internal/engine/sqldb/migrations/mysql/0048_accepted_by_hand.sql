-- Somebody may accept a document that was rejected: its record says who did, when and why.
-- A column cannot be added twice, and DDL cannot be taken back: each is added if it is not there.
-- Undo: drop the columns; the documents stay accepted, and nothing says by whom.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'bundle_records' AND column_name = 'decided_by') = 0,
  'ALTER TABLE bundle_records ADD COLUMN decided_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'bundle_records' AND column_name = 'decided_at') = 0,
  'ALTER TABLE bundle_records ADD COLUMN decided_at BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'bundle_records' AND column_name = 'decision') = 0,
  'ALTER TABLE bundle_records ADD COLUMN decision VARCHAR(500) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'bundle_records' AND column_name = 'decision') > 0,
  'ALTER TABLE bundle_records DROP COLUMN decision', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'bundle_records' AND column_name = 'decided_at') > 0,
  'ALTER TABLE bundle_records DROP COLUMN decided_at', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'bundle_records' AND column_name = 'decided_by') > 0,
  'ALTER TABLE bundle_records DROP COLUMN decided_by', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
