-- Webhooks: an address that the entries of an account's activity are sent to, in their order, from a position on. A position is moved
-- by a compare-and-set, so two processes that send at once repeat entries and leave none out.
-- Undo: drop the table; nobody is sent anything any more.
-- +goose Up
CREATE TABLE webhooks (
  id            TEXT    NOT NULL PRIMARY KEY,
  account_id    TEXT    NOT NULL REFERENCES accounts (id),
  user_id       TEXT    NOT NULL, -- who made it: it is disabled when they lose the right to
  name          TEXT    NOT NULL,
  url           TEXT    NOT NULL,
  secret        TEXT    NOT NULL, -- sealed
  types         TEXT    NOT NULL, -- separated by commas: verbs, or what they begin with; '': all but upload
  state         TEXT    NOT NULL, -- active | disabled
  reason        TEXT    NOT NULL, -- why it was disabled: failing | right | secret | gone; '': by somebody
  position      INTEGER NOT NULL, -- activity.id of the last entry that is settled
  skipped       INTEGER NOT NULL, -- entries that the receiver has refused for good
  failures      INTEGER NOT NULL, -- in a row
  failing_since INTEGER NOT NULL, -- 0: the last attempt succeeded
  not_before    INTEGER NOT NULL, -- of the next attempt
  status        INTEGER NOT NULL, -- the last answer; 0: there was none
  error         TEXT    NOT NULL, -- the code of what was wrong with it
  sent_at       INTEGER NOT NULL, -- the last attempt; 0: none
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX webhooks_account ON webhooks (account_id, id);
CREATE INDEX webhooks_due ON webhooks (state, not_before);

-- +goose Down
DROP TABLE webhooks;
