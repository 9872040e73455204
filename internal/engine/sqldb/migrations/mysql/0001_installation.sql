-- What identifies this installation: its id, the generation raised at each start, secrets for signing.
--
-- The tables are those of migrations/sqlite, column by column. DDL is not transactional here: each file can be run again from
-- its beginning. Ids are CHAR(36) in ascii. Text that users choose and that is compared (names, keys, places) is VARBINARY: UTF-8
-- bytes in their order, as SQLite compares them; a character collation would take "a" and "a " for the same name (PAD SPACE).
-- Undo: drop the table; the blobs' mark then no longer matches and serve refuses to start.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS meta (
  name  VARBINARY(64) NOT NULL PRIMARY KEY,
  value TEXT          NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS meta;
