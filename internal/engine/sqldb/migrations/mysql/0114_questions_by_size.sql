-- How large the content is that a user was asked about: what the server may read in a day for a user's wrong answers is bounded.
-- Undo: drop the column; each question counts as one of no size.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'refusals' AND column_name = 'bytes') = 0,
  'ALTER TABLE refusals ADD COLUMN bytes BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'refusals' AND column_name = 'bytes') > 0,
  'ALTER TABLE refusals DROP COLUMN bytes', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
