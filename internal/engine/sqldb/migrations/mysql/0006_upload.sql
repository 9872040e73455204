-- Uploads, one row each, changed only by compare-and-set on (id, state, gen).
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS uploads (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parent_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name        VARBINARY(255) NOT NULL,
  conflict    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  base        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- replace: the version that begin saw; NULL: the name was free
  size        BIGINT, -- NULL: not known yet
  part_size   BIGINT         NOT NULL,
  mtime       BIGINT         NOT NULL,
  mime        VARBINARY(255) NOT NULL,
  fingerprint VARBINARY(255) NOT NULL,
  digests     TEXT           NOT NULL, -- declared, JSON {algo: hex}
  state       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- active | parked | sealing | reclaiming | done | gone
  gen         BIGINT         NOT NULL, -- fencing token: +1 at every change of state
  reserved    BIGINT         NOT NULL, -- what it holds in ledgers.reserved
  held        BIGINT         NOT NULL, -- what it holds in ledgers.unfinished
  received    BIGINT         NOT NULL DEFAULT 0, -- bytes when it last went quiet
  resumes     BIGINT         NOT NULL DEFAULT 0, -- resumes in a row that brought no part
  challenge   MEDIUMTEXT     NOT NULL, -- the open possession challenge, JSON
  node_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  reason      VARCHAR(64)    NOT NULL DEFAULT '', -- why it is gone
  created_at  BIGINT         NOT NULL,
  active_at   BIGINT         NOT NULL, -- last activity known to the database
  ended_at    BIGINT         NOT NULL DEFAULT 0,
  KEY uploads_open (account_id, state, parent_id, name),
  KEY uploads_state (state, id),
  CONSTRAINT uploads_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- (user, digest) that answered a challenge wrongly or late gets none for a day.
CREATE TABLE IF NOT EXISTS refusals (
  user_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  digest  VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- algo:hex
  until   BIGINT NOT NULL,
  PRIMARY KEY (user_id, digest),
  KEY refusals_until (until)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS refusals;
DROP TABLE IF EXISTS uploads;
