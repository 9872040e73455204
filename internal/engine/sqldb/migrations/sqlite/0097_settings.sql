-- Settings that administrators have changed while the server runs. Each instance reads all of them every few seconds; they are a handful.
-- Undo: drop the table; the settings are those that the server is started with.
-- +goose Up
CREATE TABLE settings (
  name       TEXT    NOT NULL PRIMARY KEY, -- that of the flag
  value      TEXT    NOT NULL, -- as it would be written in a flag
  changed_at INTEGER NOT NULL,
  changed_by TEXT -- name of the user at that time; NULL: a command on the machine
) WITHOUT ROWID;

-- +goose Down
DROP TABLE settings;
