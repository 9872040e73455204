-- Bundles are claimed in turns by account: the index finds the next account with a bundle that is due.
-- Undo: drop the index; claims are slower then.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'bundles' AND index_name = 'bundles_turn') = 0,
  'CREATE INDEX bundles_turn ON bundles (state, account_id, due_at)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'bundles' AND index_name = 'bundles_turn') > 0,
  'DROP INDEX bundles_turn ON bundles', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
