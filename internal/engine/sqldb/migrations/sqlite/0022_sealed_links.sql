-- The tokens of shares and collect links and the codes of shares are not kept in plain any more: shares.token and collects.token hold a
-- hash of it, shares.code says whether there is one, and what the owner sees again is sealed by a key outside the database. The server
-- rewrites existing rows in the background; until then they hold what they held.
-- Undo: not possible for rows that were rewritten; their links are then void.
-- +goose Up
CREATE TABLE share_texts (
  share_id TEXT NOT NULL PRIMARY KEY REFERENCES shares (id) ON DELETE CASCADE,
  sealed   TEXT NOT NULL -- its token and code, by internal/vault
) WITHOUT ROWID;

CREATE TABLE collect_texts (
  collect_id TEXT NOT NULL PRIMARY KEY REFERENCES collects (id) ON DELETE CASCADE,
  sealed     TEXT NOT NULL -- its token
) WITHOUT ROWID;

-- +goose Down
DROP TABLE collect_texts;
DROP TABLE share_texts;
