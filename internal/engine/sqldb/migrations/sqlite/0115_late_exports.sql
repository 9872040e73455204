-- When the owner of a batch was told that it runs for longer than expected; 0: not told.
-- Undo: drop index and column; nobody is told then.
-- +goose Up
ALTER TABLE exports ADD COLUMN late_at INTEGER NOT NULL DEFAULT 0;
CREATE INDEX exports_begun ON exports (state, begun_at);

-- +goose Down
DROP INDEX exports_begun;
ALTER TABLE exports DROP COLUMN late_at;
