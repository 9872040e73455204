-- What the managers of a space decide: who gives out links, whether roles in it are given to others than members, and for how many days
-- the trash and old versions are kept (0: as long as the server keeps them). What is due of one account is listed by its own time then:
-- due_own takes the place of due_account, which is its beginning.
-- A column cannot be added twice, and DDL cannot be taken back: each is added if it is not there.
-- Undo: drop the columns and indexes; everybody then keeps what they had before, and links that were shut open again.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'links') = 0,
  'ALTER TABLE spaces ADD COLUMN links VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''editors''', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'outward') = 0,
  'ALTER TABLE spaces ADD COLUMN outward VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''managers''', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'trash_days') = 0,
  'ALTER TABLE spaces ADD COLUMN trash_days BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'version_days') = 0,
  'ALTER TABLE spaces ADD COLUMN version_days BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'spaces' AND index_name = 'spaces_trash_days') = 0,
  'CREATE INDEX spaces_trash_days ON spaces (trash_days)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'spaces' AND index_name = 'spaces_version_days') = 0,
  'CREATE INDEX spaces_version_days ON spaces (version_days)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'due' AND index_name = 'due_own') = 0,
  'CREATE INDEX due_own ON due (account_id, kind, since, id)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'due' AND index_name = 'due_account') > 0,
  'DROP INDEX due_account ON due', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'due' AND index_name = 'due_account') = 0,
  'CREATE INDEX due_account ON due (account_id)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'due' AND index_name = 'due_own') > 0,
  'DROP INDEX due_own ON due', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'spaces' AND index_name = 'spaces_version_days') > 0,
  'DROP INDEX spaces_version_days ON spaces', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'spaces' AND index_name = 'spaces_trash_days') > 0,
  'DROP INDEX spaces_trash_days ON spaces', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'version_days') > 0,
  'ALTER TABLE spaces DROP COLUMN version_days', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'trash_days') > 0,
  'ALTER TABLE spaces DROP COLUMN trash_days', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'outward') > 0,
  'ALTER TABLE spaces DROP COLUMN outward', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'spaces' AND column_name = 'links') > 0,
  'ALTER TABLE spaces DROP COLUMN links', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
