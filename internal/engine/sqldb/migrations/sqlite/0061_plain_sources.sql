-- A source may take in everything that lands in its folder, without a manifest: its rules say so, and this column, by which those who
-- gather such files find it. A bundle that was gathered has the id of its own folder as meta_id.
-- Undo: drop index and column; what was gathered stays, and files without a manifest are not taken in any more.
-- +goose Up
ALTER TABLE sources ADD COLUMN plain INTEGER NOT NULL DEFAULT 0; -- 1: files without a manifest are taken in
CREATE INDEX sources_plain ON sources (plain, account_id, name);

-- +goose Down
DROP INDEX sources_plain;
ALTER TABLE sources DROP COLUMN plain;
