-- Shares: a link by which anybody may list and download one node and what is below it. Collect links: one by which anybody may send
-- files into one folder. Both are read by their token, which is kept as it is: the owner sees the link again, and so the code.
-- Undo: drop the tables; links that were given out are then void, and what came by them stays where it is.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS shares (
  id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- who made it: closed while they cannot log in
  node_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
  code          VARBINARY(64) NOT NULL, -- the extraction code; '': none
  epoch         BIGINT NOT NULL, -- raised when the code changes: voids what was opened with the old one
  expires_at    BIGINT NOT NULL, -- 0: never
  max_downloads BIGINT, -- NULL: any number
  downloads     BIGINT NOT NULL DEFAULT 0,
  views         BIGINT NOT NULL DEFAULT 0,
  created_at    BIGINT NOT NULL,
  KEY shares_account (account_id, id),
  KEY shares_node (node_id),
  CONSTRAINT shares_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Downloads that were counted, by who opened the share: the other ranges of a file are part of them. Only of shares with a limit.
CREATE TABLE IF NOT EXISTS share_downloads (
  visit_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  share_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  begun_at BIGINT NOT NULL,
  PRIMARY KEY (visit_id, node_id),
  KEY share_downloads_age (begun_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Codes that were tried, by share and address and by share: see internal/share/attempts.go.
CREATE TABLE IF NOT EXISTS share_attempts (
  subject    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  tries      BIGINT NOT NULL, -- since started_at
  started_at BIGINT NOT NULL,
  KEY share_attempts_age (started_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS collects (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  folder_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
  title      VARBINARY(512) NOT NULL,
  message    TEXT NOT NULL,
  expires_at BIGINT NOT NULL, -- 0: never
  max_bytes  BIGINT, -- of all files together; NULL: what the account has room for
  max_file   BIGINT, -- bytes of one file; NULL: any
  files      BIGINT NOT NULL DEFAULT 0, -- done ones among collected
  received   BIGINT NOT NULL DEFAULT 0, -- their bytes
  created_at BIGINT NOT NULL,
  KEY collects_account (account_id, id),
  CONSTRAINT collects_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- What came by collect links. An open one counts with its declared size until its upload is gone.
CREATE TABLE IF NOT EXISTS collected (
  upload_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  collect_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sender_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- who opened the link; they see no uploads but these
  sender     VARBINARY(512) NOT NULL, -- what they called themselves
  name       VARBINARY(255) NOT NULL, -- as it was sent: a rename would tell of other files
  size       BIGINT NOT NULL,
  digests    TEXT NOT NULL, -- declared, JSON {algo: hex}: verified at the end, never looked for
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- open | done
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- of a done one
  created_at BIGINT NOT NULL,
  KEY collected_link (collect_id, state, upload_id),
  KEY collected_sender (sender_id, upload_id),
  KEY collected_account (account_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS collected;
DROP TABLE IF EXISTS collects;
DROP TABLE IF EXISTS share_attempts;
DROP TABLE IF EXISTS share_downloads;
DROP TABLE IF EXISTS shares;
