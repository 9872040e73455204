-- What pages need. Names are searched by a scan of an index of them: it holds nothing else, so that 100,000 names are some MB.
-- Preferences are what a user chose on the pages: language, theme, view. The server keeps them and does not look inside.
-- Undo: drop both.
-- +goose Up
CREATE INDEX nodes_search ON nodes (account_id, name_fold);
CREATE TABLE preferences (
  user_id    TEXT    NOT NULL PRIMARY KEY REFERENCES users (id),
  value      TEXT    NOT NULL, -- a JSON object
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE preferences;
DROP INDEX nodes_search;
