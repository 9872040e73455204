-- The tokens of shares and collect links and the codes of shares are not kept in plain any more: shares.token and collects.token hold a
-- hash of it, shares.code says whether there is one, and what the owner sees again is sealed by a key outside the database. The server
-- rewrites existing rows in the background; until then they hold what they held.
-- Undo: not possible for rows that were rewritten; their links are then void.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS share_texts (
  share_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  sealed   VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- its token and code, by internal/vault
  CONSTRAINT share_texts_shares FOREIGN KEY (share_id) REFERENCES shares (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS collect_texts (
  collect_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  sealed     VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- its token
  CONSTRAINT collect_texts_collects FOREIGN KEY (collect_id) REFERENCES collects (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS collect_texts;
DROP TABLE IF EXISTS share_texts;
