-- Two things of one name that are shared with somebody are shown under two names by heads whose clients know nothing but paths. Which
-- has which is kept, so that nothing that happens to one of them changes the name of the other. '': there was no other of its name.
-- A column cannot be added twice, and DDL cannot be taken back: it is added if it is not there.
-- Undo: drop the column; rows without a name that are not hidden say nothing then.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'mounts' AND column_name = 'shown') = 0,
  'ALTER TABLE mounts ADD COLUMN shown VARBINARY(300) NOT NULL DEFAULT ''''', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'mounts' AND column_name = 'shown') > 0,
  'ALTER TABLE mounts DROP COLUMN shown', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
