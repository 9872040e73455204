-- The secret that a webhook had before its present one: requests are signed with both until a moment, so that a receiver can change over.
-- Undo: drop the columns; receivers that have not changed over refuse what they are sent.
-- +goose Up
ALTER TABLE webhooks ADD COLUMN old_secret TEXT NOT NULL DEFAULT '';
ALTER TABLE webhooks ADD COLUMN old_until INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE webhooks DROP COLUMN old_until;
ALTER TABLE webhooks DROP COLUMN old_secret;
