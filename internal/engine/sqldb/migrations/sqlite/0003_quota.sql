-- The ledger: the only counter of usage (Q1-Q4). Every row change is one conditional UPDATE inside the transaction of the
-- state change that it belongs to.
-- +goose Up
CREATE TABLE ledgers (
  account_id TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
  total      INTEGER, -- NULL: unlimited
  finished   INTEGER NOT NULL DEFAULT 0 CHECK (finished >= 0),
  unfinished INTEGER NOT NULL DEFAULT 0 CHECK (unfinished >= 0),
  reserved   INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  version    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- +goose Down
DROP TABLE ledgers;
