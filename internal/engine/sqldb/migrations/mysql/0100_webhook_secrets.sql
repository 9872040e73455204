-- The secret that a webhook had before its present one: requests are signed with both until a moment, so that a receiver can change over.
-- A column cannot be added twice, and DDL cannot be taken back: each is added if it is not there.
-- Undo: drop the columns; receivers that have not changed over refuse what they are sent.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'webhooks' AND column_name = 'old_secret') = 0,
  'ALTER TABLE webhooks ADD COLUMN old_secret VARBINARY(1024) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'webhooks' AND column_name = 'old_until') = 0,
  'ALTER TABLE webhooks ADD COLUMN old_until BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'webhooks' AND column_name = 'old_until') > 0,
  'ALTER TABLE webhooks DROP COLUMN old_until', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'webhooks' AND column_name = 'old_secret') > 0,
  'ALTER TABLE webhooks DROP COLUMN old_secret', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
