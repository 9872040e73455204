-- Who has a password that somebody else chose and has to set another one first, and when a user logged in last.
-- Undo: drop the columns; nobody is asked for a new password then.
-- +goose Up
ALTER TABLE users ADD COLUMN must_change INTEGER NOT NULL DEFAULT 0; -- 1: a login is good for a new password only
ALTER TABLE users ADD COLUMN last_login_at INTEGER NOT NULL DEFAULT 0; -- 0: never, or before this column

-- +goose Down
ALTER TABLE users DROP COLUMN last_login_at;
ALTER TABLE users DROP COLUMN must_change;
