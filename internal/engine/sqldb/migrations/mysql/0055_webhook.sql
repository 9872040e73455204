-- Webhooks: an address that the entries of an account's activity are sent to, in their order, from a position on. A position is moved
-- by a compare-and-set, so two processes that send at once repeat entries and leave none out.
-- Undo: drop the table; nobody is sent anything any more.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS webhooks (
  id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- who made it: it is disabled when they lose the right to
  name          VARBINARY(255) NOT NULL,
  url           VARBINARY(2048) NOT NULL,
  secret        VARBINARY(1024) NOT NULL, -- sealed
  types         VARBINARY(1024) NOT NULL, -- separated by commas: verbs, or what they begin with; '': all but upload
  state         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- active | disabled
  reason        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- why it was disabled: failing | right | secret | gone; '': by somebody
  position      BIGINT NOT NULL, -- activity.id of the last entry that is settled
  skipped       BIGINT NOT NULL, -- entries that the receiver has refused for good
  failures      BIGINT NOT NULL, -- in a row
  failing_since BIGINT NOT NULL, -- 0: the last attempt succeeded
  not_before    BIGINT NOT NULL, -- of the next attempt
  status        BIGINT NOT NULL, -- the last answer; 0: there was none
  error         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the code of what was wrong with it
  sent_at       BIGINT NOT NULL, -- the last attempt; 0: none
  created_at    BIGINT NOT NULL,
  updated_at    BIGINT NOT NULL,
  KEY webhooks_account (account_id, id),
  KEY webhooks_due (state, not_before),
  CONSTRAINT webhooks_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS webhooks;
