-- The drive of a user who has left, once all that was in it has gone to somebody else. A request that was on its way all the time must
-- not put anything there that nobody would find: no node comes into a tree that is closed. It is opened when the user is enabled again.
-- A column cannot be added twice, and DDL cannot be taken back: it is added if it is not there.
-- Undo: drop the column; what comes into such a drive then stays there until the user is purged.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'trees' AND column_name = 'closed') = 0,
  'ALTER TABLE trees ADD COLUMN closed BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'trees' AND column_name = 'closed') > 0,
  'ALTER TABLE trees DROP COLUMN closed', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
