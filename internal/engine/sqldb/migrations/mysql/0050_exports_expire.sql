-- Exports whose zips have expired are found by an index of their own end: before, the server read all exports for it, and locked what
-- it read. One ALTER, which may run twice.
-- Undo: the index without expires_at.
-- +goose NO TRANSACTION
-- +goose Up
ALTER TABLE exports
  DROP KEY exports_ended,
  ADD KEY exports_ended (released_at, state, expires_at);

-- +goose Down
ALTER TABLE exports
  DROP KEY exports_ended,
  ADD KEY exports_ended (released_at, state);
