-- Uploads, one row each, changed only by compare-and-set on (id, state, gen).
-- +goose Up
CREATE TABLE uploads (
  id          TEXT    NOT NULL PRIMARY KEY,
  account_id  TEXT    NOT NULL REFERENCES accounts (id),
  user_id     TEXT    NOT NULL,
  parent_id   TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  conflict    TEXT    NOT NULL,
  base        TEXT,    -- replace: the version that begin saw; NULL: the name was free
  size        INTEGER, -- NULL: not known yet
  part_size   INTEGER NOT NULL,
  mtime       INTEGER NOT NULL,
  mime        TEXT    NOT NULL,
  fingerprint TEXT    NOT NULL,
  digests     TEXT    NOT NULL, -- declared, JSON {algo: hex}
  state       TEXT    NOT NULL, -- active | parked | sealing | reclaiming | done | gone
  gen         INTEGER NOT NULL, -- fencing token: +1 at every change of state
  reserved    INTEGER NOT NULL, -- what it holds in ledgers.reserved
  held        INTEGER NOT NULL, -- what it holds in ledgers.unfinished
  received    INTEGER NOT NULL DEFAULT 0, -- bytes when it last went quiet
  resumes     INTEGER NOT NULL DEFAULT 0, -- resumes in a row that brought no part
  challenge   TEXT    NOT NULL DEFAULT '', -- the open possession challenge, JSON
  node_id     TEXT,
  reason      TEXT    NOT NULL DEFAULT '', -- why it is gone
  created_at  INTEGER NOT NULL,
  active_at   INTEGER NOT NULL, -- last activity known to the database
  ended_at    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX uploads_open ON uploads (account_id, state, parent_id, name);
CREATE INDEX uploads_state ON uploads (state, id);

-- (user, digest) that answered a challenge wrongly or late gets none for a day.
CREATE TABLE refusals (
  user_id TEXT    NOT NULL,
  digest  TEXT    NOT NULL, -- algo:hex
  until   INTEGER NOT NULL,
  PRIMARY KEY (user_id, digest)
) WITHOUT ROWID;

-- +goose Down
DROP TABLE refusals;
DROP TABLE uploads;
