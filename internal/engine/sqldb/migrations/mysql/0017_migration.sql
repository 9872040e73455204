-- Moving an installation to another database while it serves (internal/migrate). migration_side says what this database is to the
-- move: one row, none when nothing moves; a transaction that writes holds it for reading, and who changes it waits for those. The
-- triggers of the move, which are no part of the schema, write a row of migration_changes beside each change of a row, in its
-- transaction. migration_versions is kept by the database that follows: up to which change each row is, so that what comes late
-- changes nothing; the row of one that was deleted stays. None of these tables is itself moved.
-- Undo: drop them, when no move is under way.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS migration_side (
  id         BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
  migration  VARBINARY(64) NOT NULL, -- the id of the move, the same on both sides
  role       BIGINT NOT NULL, -- 1 primary | 2 secondary | 3 fenced, between two | 4 retired
  epoch      BIGINT NOT NULL, -- raised with every change of the move; only the side of the higher one counts
  term       BIGINT NOT NULL, -- raised when the primary changes: versions of a later term are newer
  phase      BIGINT NOT NULL,
  percent    BIGINT NOT NULL, -- of the accounts that read from the other side, in phase 3
  careful    BIGINT NOT NULL, -- 1: nobody reads without asking who is primary; around a switch
  paused     BIGINT NOT NULL,
  applying   BIGINT NOT NULL DEFAULT 0, -- unused here: connections that bring rows check no foreign keys, and are known by that
  here       TEXT NOT NULL, -- how to open this side
  peer       TEXT NOT NULL, -- how to open the other side; empty: only contents move
  contents   TEXT NOT NULL, -- how to open where the contents go; empty: they stay
  marker     VARBINARY(64) NOT NULL, -- proves that the secondary is the one that was filled
  changed_at BIGINT NOT NULL,
  begun_at   BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_changes (
  seq     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tbl     VARBINARY(64)   NOT NULL,
  k       VARBINARY(2048) NOT NULL, -- the primary key: one column as text, or hex joined with dots
  account VARBINARY(64)   NOT NULL, -- whose row it is; empty: nobody's
  KEY migration_changes_account (account)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_versions (
  tbl     VARBINARY(64)   NOT NULL,
  k       VARBINARY(2048) NOT NULL,
  version BIGINT NOT NULL, -- term and seq of the change
  deleted BIGINT NOT NULL,
  PRIMARY KEY (tbl, k)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Save points: how far the rows of a table were filled in (kind fill), compared (kind check). On the secondary, so that they go with it.
CREATE TABLE IF NOT EXISTS migration_progress (
  kind   VARBINARY(16)   NOT NULL,
  tbl    VARBINARY(64)   NOT NULL,
  last   VARBINARY(2048) NOT NULL, -- the key of the last row, as in migration_changes; empty: none
  done   BIGINT NOT NULL, -- rows
  total  BIGINT NOT NULL, -- rows when it began
  ended  BIGINT NOT NULL, -- 1: to the end
  digest VARBINARY(128) NOT NULL, -- of what was compared, hex
  PRIMARY KEY (kind, tbl)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_acks (
  instance BIGINT NOT NULL PRIMARY KEY, -- generation of the start
  epoch    BIGINT NOT NULL, -- that it has heard of
  seen_at  BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Evidence: full comparisons of both sides. On the primary.
CREATE TABLE IF NOT EXISTS migration_checksums (
  id         VARBINARY(64)  NOT NULL PRIMARY KEY,
  migration  VARBINARY(64)  NOT NULL,
  marker     VARBINARY(64)  NOT NULL, -- of the secondary that was compared
  term       BIGINT NOT NULL,
  state      VARBINARY(16)  NOT NULL, -- running | done
  row_count  BIGINT NOT NULL,
  unequal    BIGINT NOT NULL,
  digest     VARBINARY(128) NOT NULL,
  begun_at   BIGINT NOT NULL,
  ended_at   BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_mismatches (
  id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  migration VARBINARY(64) NOT NULL,
  source    VARBINARY(16) NOT NULL, -- read | checksum
  subject   MEDIUMBLOB NOT NULL, -- a query, or table and key
  ours      MEDIUMBLOB NOT NULL, -- what the primary has
  theirs    MEDIUMBLOB NOT NULL,
  found_at  BIGINT NOT NULL,
  explained BIGINT NOT NULL DEFAULT 0 -- 1: somebody has looked, or a later comparison was equal
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copies (
  file VARBINARY(255) NOT NULL PRIMARY KEY -- as in blobs
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS copies;
DROP TABLE IF EXISTS migration_mismatches;
DROP TABLE IF EXISTS migration_checksums;
DROP TABLE IF EXISTS migration_acks;
DROP TABLE IF EXISTS migration_progress;
DROP TABLE IF EXISTS migration_versions;
DROP TABLE IF EXISTS migration_changes;
DROP TABLE IF EXISTS migration_side;
