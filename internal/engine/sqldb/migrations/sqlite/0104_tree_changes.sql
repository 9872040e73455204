-- Each change of a node leaves rows for months (activity, tombstones): changed counts those of the day changed_on, UTC, in days since
-- 1970, so that a day has a limit.
-- Undo: drop both columns; an account may make any number of changes again.
-- +goose Up
ALTER TABLE trees ADD COLUMN changed_on INTEGER NOT NULL DEFAULT 0;
ALTER TABLE trees ADD COLUMN changed INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE trees DROP COLUMN changed;
ALTER TABLE trees DROP COLUMN changed_on;
