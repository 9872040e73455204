-- What an account makes that is no content, so that its quota does not bound it, has a budget of its own: the lists of its exports
-- (export_texts, in bytes) and the versions that its files had before (old_versions, in rows).
-- Undo: drop both; neither is bounded then.
-- +goose Up
CREATE TABLE export_texts (
  export_id  TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  size       INTEGER NOT NULL -- bytes of its rows in export_wants, written before them
) WITHOUT ROWID;
CREATE INDEX export_texts_account ON export_texts (account_id, size);
INSERT INTO export_texts (export_id, account_id, size)
  SELECT e.id, e.account_id, COALESCE(SUM(100 + LENGTH(w.doc) + LENGTH(w.url) + LENGTH(w.path) + LENGTH(w.name)), 0)
  FROM exports e LEFT JOIN export_wants w ON w.export_id = e.id GROUP BY e.id, e.account_id;

CREATE TABLE old_versions (
  account_id TEXT    NOT NULL PRIMARY KEY,
  n          INTEGER NOT NULL CHECK (n >= 0) -- rows of versions that are no node's current one
) WITHOUT ROWID;
INSERT INTO old_versions (account_id, n)
  SELECT v.account_id, COUNT(*) FROM versions v JOIN nodes n ON n.id = v.node_id WHERE v.id <> n.version_id GROUP BY v.account_id;

-- +goose Down
DROP TABLE old_versions;
DROP TABLE export_texts;
