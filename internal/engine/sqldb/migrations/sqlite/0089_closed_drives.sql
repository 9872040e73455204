-- The drive of a user who has left, once all that was in it has gone to somebody else. A request that was on its way all the time must
-- not put anything there that nobody would find: no node comes into a tree that is closed. It is opened when the user is enabled again.
-- Undo: drop the column; what comes into such a drive then stays there until the user is purged.
-- +goose Up
ALTER TABLE trees ADD COLUMN closed INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE trees DROP COLUMN closed;
