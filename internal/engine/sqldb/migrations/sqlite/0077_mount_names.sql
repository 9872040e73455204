-- Two things of one name that are shared with somebody are shown under two names by heads whose clients know nothing but paths. Which
-- has which is kept, so that nothing that happens to one of them changes the name of the other.
-- Undo: drop the column; rows without a name that are not hidden say nothing then.
-- +goose Up
ALTER TABLE mounts ADD COLUMN shown TEXT NOT NULL DEFAULT ''; -- '': there was no other of its name

-- +goose Down
ALTER TABLE mounts DROP COLUMN shown;
