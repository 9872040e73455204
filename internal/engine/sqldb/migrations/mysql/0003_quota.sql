-- The ledger: the only counter of usage (Q1-Q4). Every row change is one conditional UPDATE inside the transaction of the
-- state change that it belongs to. The row is also the lock on everything that belongs to the account.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS ledgers (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  total      BIGINT, -- NULL: unlimited
  finished   BIGINT NOT NULL DEFAULT 0 CHECK (finished >= 0),
  unfinished BIGINT NOT NULL DEFAULT 0 CHECK (unfinished >= 0),
  reserved   BIGINT NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  version    BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT ledgers_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS ledgers;
