-- A token says for which heads (protocols) it is good: a bit each, as drive.Heads has them. Those that exist are for the native API.
-- Undo: drop the column; every token is then good for the native API, and for nothing else.
-- +goose Up
ALTER TABLE sessions ADD COLUMN heads INTEGER NOT NULL DEFAULT 1;

-- +goose Down
ALTER TABLE sessions DROP COLUMN heads;
