-- Nothing to do here: the index that this migration adds on SQLite has been there since 0004.
-- Undo: nothing.
-- +goose NO TRANSACTION
-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
