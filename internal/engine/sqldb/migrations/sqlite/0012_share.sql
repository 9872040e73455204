-- Shares: a link by which anybody may list and download one node and what is below it. Collect links: one by which anybody may send
-- files into one folder. Both are read by their token, which is kept as it is: the owner sees the link again, and so the code.
-- Undo: drop the tables; links that were given out are then void, and what came by them stays where it is.
-- +goose Up
CREATE TABLE shares (
  id            TEXT    NOT NULL PRIMARY KEY,
  account_id    TEXT    NOT NULL REFERENCES accounts (id),
  user_id       TEXT    NOT NULL, -- who made it: closed while they cannot log in
  node_id       TEXT    NOT NULL,
  token         TEXT    NOT NULL UNIQUE,
  code          TEXT    NOT NULL, -- the extraction code; '': none
  epoch         INTEGER NOT NULL, -- raised when the code changes: voids what was opened with the old one
  expires_at    INTEGER NOT NULL, -- 0: never
  max_downloads INTEGER, -- NULL: any number
  downloads     INTEGER NOT NULL DEFAULT 0,
  views         INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX shares_account ON shares (account_id, id);
CREATE INDEX shares_node ON shares (node_id);

-- Downloads that were counted, by who opened the share: the other ranges of a file are part of them. Only of shares with a limit.
CREATE TABLE share_downloads (
  visit_id TEXT    NOT NULL,
  node_id  TEXT    NOT NULL,
  share_id TEXT    NOT NULL,
  begun_at INTEGER NOT NULL,
  PRIMARY KEY (visit_id, node_id)
) WITHOUT ROWID;
CREATE INDEX share_downloads_age ON share_downloads (begun_at);

-- Codes that were tried, by share and address and by share: see internal/share/attempts.go.
CREATE TABLE share_attempts (
  subject    TEXT    NOT NULL PRIMARY KEY,
  tries      INTEGER NOT NULL, -- since started_at
  started_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX share_attempts_age ON share_attempts (started_at);

CREATE TABLE collects (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL REFERENCES accounts (id),
  user_id    TEXT    NOT NULL,
  folder_id  TEXT    NOT NULL,
  token      TEXT    NOT NULL UNIQUE,
  title      TEXT    NOT NULL,
  message    TEXT    NOT NULL,
  expires_at INTEGER NOT NULL, -- 0: never
  max_bytes  INTEGER, -- of all files together; NULL: what the account has room for
  max_file   INTEGER, -- bytes of one file; NULL: any
  files      INTEGER NOT NULL DEFAULT 0, -- done ones among collected
  received   INTEGER NOT NULL DEFAULT 0, -- their bytes
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX collects_account ON collects (account_id, id);

-- What came by collect links. An open one counts with its declared size until its upload is gone.
CREATE TABLE collected (
  upload_id  TEXT    NOT NULL PRIMARY KEY,
  collect_id TEXT    NOT NULL,
  account_id TEXT    NOT NULL,
  sender_id  TEXT    NOT NULL, -- who opened the link; they see no uploads but these
  sender     TEXT    NOT NULL, -- what they called themselves
  name       TEXT    NOT NULL, -- as it was sent: a rename would tell of other files
  size       INTEGER NOT NULL,
  digests    TEXT    NOT NULL, -- declared, JSON {algo: hex}: verified at the end, never looked for
  state      TEXT    NOT NULL, -- open | done
  node_id    TEXT, -- of a done one
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX collected_link ON collected (collect_id, state, upload_id);
CREATE INDEX collected_sender ON collected (sender_id, upload_id);
CREATE INDEX collected_account ON collected (account_id);

-- +goose Down
DROP TABLE collected;
DROP TABLE collects;
DROP TABLE share_attempts;
DROP TABLE share_downloads;
DROP TABLE shares;
