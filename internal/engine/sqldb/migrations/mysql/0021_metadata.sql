-- What an account makes that is no content, so that its quota does not bound it, has a budget of its own: the lists of its exports
-- (export_texts, in bytes) and the versions that its files had before (old_versions, in rows).
-- Undo: drop both; neither is bounded then.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS export_texts (
  export_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT NOT NULL, -- bytes of its rows in export_wants, written before them
  KEY export_texts_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
REPLACE INTO export_texts (export_id, account_id, size)
  SELECT e.id, e.account_id, COALESCE(SUM(100 + LENGTH(w.doc) + LENGTH(w.url) + LENGTH(w.path) + LENGTH(w.name)), 0)
  FROM exports e LEFT JOIN export_wants w ON w.export_id = e.id GROUP BY e.id, e.account_id;

CREATE TABLE IF NOT EXISTS old_versions (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  n          BIGINT NOT NULL CHECK (n >= 0) -- rows of versions that are no node's current one
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
REPLACE INTO old_versions (account_id, n)
  SELECT v.account_id, COUNT(*) FROM versions v JOIN nodes n ON n.id = v.node_id WHERE v.id <> n.version_id GROUP BY v.account_id;

-- +goose Down
DROP TABLE IF EXISTS old_versions;
DROP TABLE IF EXISTS export_texts;
