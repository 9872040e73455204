-- What is kept for a while is found by when it is due, and not by a walk over all accounts: since when the trash of an account holds
-- something, since when a tree has tombstones, since when a file has a version beyond those that are always kept. A row may say too
-- early, never too late; who looks says the right time or deletes it. What was there before is found by a survey (meta 'due').
-- Undo: drop the table; nothing of this is deleted any more.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS due (
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- trash | tombstones | versions
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- an account; a file for versions
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  since      BIGINT NOT NULL,
  PRIMARY KEY (kind, id),
  KEY due_since (kind, since, id),
  KEY due_account (account_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS due;
DELETE FROM meta WHERE name = 'due';
