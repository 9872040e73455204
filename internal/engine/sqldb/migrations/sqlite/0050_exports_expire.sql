-- Exports whose zips have expired are found by an index of their own end: before, each pass looked at all that are held.
-- Undo: the index without expires_at; a pass looks at more rows.
-- +goose Up
DROP INDEX exports_ended;
CREATE INDEX exports_ended ON exports (released_at, state, expires_at);

-- +goose Down
DROP INDEX exports_ended;
CREATE INDEX exports_ended ON exports (released_at, state);
