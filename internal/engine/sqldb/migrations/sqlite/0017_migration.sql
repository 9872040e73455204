-- Moving an installation to another database while it serves (internal/migrate). migration_side says what this database is to the
-- move: one row, none when nothing moves. The triggers of the move, which are no part of the schema, write a row of
-- migration_changes beside each change of a row, in its transaction. migration_versions is kept by the database that follows: up to
-- which change each row is, so that what comes late changes nothing; the row of one that was deleted stays.
-- None of these tables but copies is itself moved.
-- Undo: drop them, when no move is under way.
-- +goose Up
CREATE TABLE migration_side (
  id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  migration  TEXT    NOT NULL, -- the id of the move, the same on both sides
  role       INTEGER NOT NULL, -- 1 primary | 2 secondary | 3 fenced, between two | 4 retired
  epoch      INTEGER NOT NULL, -- raised with every change of the move; only the side of the higher one counts
  term       INTEGER NOT NULL, -- raised when the primary changes: versions of a later term are newer
  phase      INTEGER NOT NULL,
  percent    INTEGER NOT NULL, -- of the accounts that read from the other side, in phase 3
  careful    INTEGER NOT NULL, -- 1: nobody reads without asking who is primary; around a switch
  paused     INTEGER NOT NULL,
  applying   INTEGER NOT NULL DEFAULT 0, -- 1 within a transaction that brings rows: they are not captured
  here       TEXT    NOT NULL, -- how to open this side
  peer       TEXT    NOT NULL, -- how to open the other side; empty: only contents move
  contents   TEXT    NOT NULL, -- how to open where the contents go; empty: they stay
  marker     TEXT    NOT NULL, -- proves that the secondary is the one that was filled
  changed_at INTEGER NOT NULL,
  begun_at   INTEGER NOT NULL
);

CREATE TABLE migration_changes (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  tbl     TEXT NOT NULL,
  k       TEXT NOT NULL, -- the primary key: one column as text, or hex joined with dots
  account TEXT NOT NULL  -- whose row it is; empty: nobody's
);
CREATE INDEX migration_changes_account ON migration_changes (account);

CREATE TABLE migration_versions (
  tbl     TEXT    NOT NULL,
  k       TEXT    NOT NULL,
  version INTEGER NOT NULL, -- term and seq of the change
  deleted INTEGER NOT NULL,
  PRIMARY KEY (tbl, k)
) WITHOUT ROWID;

-- Save points: how far the rows of a table were filled in (kind fill), compared (kind check). On the secondary, so that they go with it.
CREATE TABLE migration_progress (
  kind   TEXT    NOT NULL,
  tbl    TEXT    NOT NULL,
  last   TEXT    NOT NULL, -- the key of the last row, as in migration_changes; empty: none
  done   INTEGER NOT NULL, -- rows
  total  INTEGER NOT NULL, -- rows when it began
  ended  INTEGER NOT NULL, -- 1: to the end
  digest TEXT    NOT NULL, -- of what was compared, hex
  PRIMARY KEY (kind, tbl)
) WITHOUT ROWID;

CREATE TABLE migration_acks (
  instance INTEGER NOT NULL PRIMARY KEY, -- generation of the start
  epoch    INTEGER NOT NULL, -- that it has heard of
  seen_at  INTEGER NOT NULL
);

-- Evidence: full comparisons of both sides. On the primary.
CREATE TABLE migration_checksums (
  id         TEXT    NOT NULL PRIMARY KEY,
  migration  TEXT    NOT NULL,
  marker     TEXT    NOT NULL, -- of the secondary that was compared
  term       INTEGER NOT NULL,
  state      TEXT    NOT NULL, -- running | done
  row_count  INTEGER NOT NULL,
  unequal    INTEGER NOT NULL,
  digest     TEXT    NOT NULL,
  begun_at   INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE migration_mismatches (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  migration TEXT    NOT NULL,
  source    TEXT    NOT NULL, -- read | checksum
  subject   TEXT    NOT NULL, -- a query, or table and key
  ours      TEXT    NOT NULL, -- what the primary has
  theirs    TEXT    NOT NULL,
  found_at  INTEGER NOT NULL,
  explained INTEGER NOT NULL DEFAULT 0 -- 1: somebody has looked, or a later comparison was equal
);

-- Contents that must be brought to the other side while contents move (internal/migrate/contents): its triggers on blobs write them, in
-- the transaction that makes or changes a row. It is moved like any other table, so the list goes with the primary.
CREATE TABLE copies (
  file TEXT NOT NULL PRIMARY KEY -- as in blobs
) WITHOUT ROWID;

-- +goose Down
DROP TABLE copies;
DROP TABLE migration_mismatches;
DROP TABLE migration_checksums;
DROP TABLE migration_acks;
DROP TABLE migration_progress;
DROP TABLE migration_versions;
DROP TABLE migration_changes;
DROP TABLE migration_side;
