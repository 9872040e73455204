-- Whoever deletes released files takes the oldest: without an index each look reads and sorts all
-- of them, and there may be millions. MySQL has had the index since 0004. Undo: drop the index.
-- +goose Up
CREATE INDEX released_age ON released (released_at);

-- +goose Down
DROP INDEX released_age;
