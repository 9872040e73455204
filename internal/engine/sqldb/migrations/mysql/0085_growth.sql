-- How an installation grows: a row a day, written each hour by the instance that takes figures. Read by day, its key.
-- Undo: drop the table; the days before are not known then.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS growth (
  day        CHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  at         BIGINT NOT NULL,
  accounts   BIGINT NOT NULL,
  finished   BIGINT NOT NULL,
  unfinished BIGINT NOT NULL,
  free       BIGINT,
  PRIMARY KEY (day)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS growth;
