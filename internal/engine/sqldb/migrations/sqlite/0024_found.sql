-- Indexes for what housekeeping looks for, so that it costs what is due and not what is there. Each is partial, or of a table
-- that no upload writes:
--   uploads_ended     an entry when an upload ends, none while it is open; without it all rows that have ended are read each hour
--   operations_ended  the same of operations
--   operations_account, refusals_until, users_admin  rows that are rare; MySQL has them since their tables were made
--   collected_open    an entry while a file of a collect link is on its way; without it every link is asked for each hour
-- They begin with the state: without statistics the planner takes uploads_state for a state and a time else, and reads all of the state.
-- Undo: drop them; nothing is lost but time.
-- +goose Up
CREATE INDEX uploads_ended ON uploads (state, ended_at) WHERE ended_at > 0;
CREATE INDEX operations_ended ON operations (state, updated_at) WHERE state IN ('done', 'failed');
CREATE INDEX operations_account ON operations (account_id);
CREATE INDEX refusals_until ON refusals (until);
CREATE INDEX users_admin ON users (state) WHERE admin = 1;
CREATE INDEX collected_open ON collected (collect_id) WHERE state = 'open';

-- +goose Down
DROP INDEX collected_open;
DROP INDEX users_admin;
DROP INDEX refusals_until;
DROP INDEX operations_account;
DROP INDEX operations_ended;
DROP INDEX uploads_ended;
