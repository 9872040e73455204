-- Pieces of a download that are fetched at the same time come in any order: ahead is 1 until the first byte was asked for, which is free then.
-- Undo: drop the column; such a download is counted twice again.
-- +goose Up
ALTER TABLE share_downloads ADD COLUMN ahead INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE share_downloads DROP COLUMN ahead;
