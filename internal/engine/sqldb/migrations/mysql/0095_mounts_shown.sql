-- Something that is shared with a user is found by the name that clients have for it, without reading all that is shared with them.
-- Undo: drop the index.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'mounts' AND index_name = 'mounts_shown') = 0,
  'CREATE INDEX mounts_shown ON mounts (user_id, shown)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'mounts' AND index_name = 'mounts_shown') > 0,
  'DROP INDEX mounts_shown ON mounts', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
