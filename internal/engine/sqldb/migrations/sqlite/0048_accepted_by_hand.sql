-- Somebody may accept a document that was rejected: its record says who did, when and why.
-- Undo: drop the columns; the documents stay accepted, and nothing says by whom.
-- +goose Up
ALTER TABLE bundle_records ADD COLUMN decided_by TEXT; -- the user who accepted what was rejected; NULL: nobody
ALTER TABLE bundle_records ADD COLUMN decided_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE bundle_records ADD COLUMN decision TEXT NOT NULL DEFAULT ''; -- why, in words

-- +goose Down
ALTER TABLE bundle_records DROP COLUMN decision;
ALTER TABLE bundle_records DROP COLUMN decided_at;
ALTER TABLE bundle_records DROP COLUMN decided_by;
