-- How large the content is that a user was asked about: what the server may read in a day for a user's wrong answers is bounded.
-- Undo: drop the column; each question counts as one of no size.
-- +goose Up
ALTER TABLE refusals ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE refusals DROP COLUMN bytes;
