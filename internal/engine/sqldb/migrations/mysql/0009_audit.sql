-- What the auditor found, and whether it mended it. A defect that is found again and again is one row.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS findings (
  id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  found_at  BIGINT NOT NULL,
  seen_at   BIGINT NOT NULL, -- the last time
  invariant VARBINARY(16)   NOT NULL,
  subject   VARBINARY(4096) NOT NULL,
  expected  BLOB            NOT NULL,
  found     BLOB            NOT NULL,
  nodes     MEDIUMTEXT      NOT NULL, -- JSON list of the nodes that suffer from it; '' where that says nothing
  repaired  TINYINT         NOT NULL,
  KEY findings_subject (subject(255), invariant),
  KEY findings_seen (seen_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS findings;
