-- What the auditor found, and whether it mended it. A defect that is found again and again is one row.
-- +goose Up
CREATE TABLE findings (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  found_at  INTEGER NOT NULL,
  seen_at   INTEGER NOT NULL, -- the last time
  invariant TEXT    NOT NULL,
  subject   TEXT    NOT NULL,
  expected  TEXT    NOT NULL,
  found     TEXT    NOT NULL,
  nodes     TEXT    NOT NULL, -- JSON list of the nodes that suffer from it; '' where that says nothing
  repaired  INTEGER NOT NULL
);
CREATE INDEX findings_subject ON findings (subject, invariant);
CREATE INDEX findings_seen ON findings (seen_at);

-- +goose Down
DROP TABLE findings;
