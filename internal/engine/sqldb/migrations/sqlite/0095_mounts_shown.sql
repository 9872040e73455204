-- Something that is shared with a user is found by the name that clients have for it, without reading all that is shared with them.
-- Undo: drop the index.
-- +goose Up
CREATE INDEX mounts_shown ON mounts (user_id, shown);

-- +goose Down
DROP INDEX mounts_shown;
