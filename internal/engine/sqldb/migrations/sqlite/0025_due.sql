-- What is kept for a while is found by when it is due, and not by a walk over all accounts: since when the trash of an account holds
-- something, since when a tree has tombstones, since when a file has a version beyond those that are always kept. A row may say too
-- early, never too late; who looks says the right time or deletes it. What was there before is found by a survey (meta 'due').
-- Undo: drop the table; nothing of this is deleted any more.
-- +goose Up
CREATE TABLE due (
  kind       TEXT    NOT NULL, -- trash | tombstones | versions
  id         TEXT    NOT NULL, -- an account; a file for versions
  account_id TEXT    NOT NULL,
  since      INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX due_since ON due (kind, since, id);
CREATE INDEX due_account ON due (account_id);

-- +goose Down
DROP TABLE due;
DELETE FROM meta WHERE name = 'due';
