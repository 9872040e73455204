-- Bundles are claimed in turns by account: the index finds the next account with a bundle that is due.
-- Undo: drop the index; claims are slower then.
-- +goose Up
CREATE INDEX bundles_turn ON bundles (state, account_id, due_at);

-- +goose Down
DROP INDEX bundles_turn;
