-- Work on many nodes that one request asks for (trash, restore, delete, move, copy; shares, too): a row for the work and how far it
-- came, and its items in pieces. What became of each item stands beside it, and how it was before: failures are listed and tried
-- again, and the work is undone, from these rows. They are kept for a week after the end.
-- Undo: drop the tables; work that runs stops where it is, and none is undone any more.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS bulks (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- trash | restore | delete | move | copy | unshare
  parent_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- where it goes
  conflict   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the work that this one undoes
  filled     BIGINT NOT NULL, -- of that, how many pieces are still to be taken over
  undone_by  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- running | done | cancelled
  stopping   BIGINT NOT NULL, -- 1: it ends when what is in the middle is through
  piece      BIGINT NOT NULL, -- where it is
  item       BIGINT NOT NULL, -- within the piece
  child_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the operation that works on that item
  done       BIGINT NOT NULL, -- items dealt with, failures included
  failed     BIGINT NOT NULL,
  total      BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  KEY bulks_account (account_id, id),
  KEY bulks_state (state, id),
  KEY bulks_ended (state, updated_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bulk_items (
  bulk_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n          BIGINT NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  items      MEDIUMBLOB NOT NULL, -- ids, 16 bytes each
  record     MEDIUMBLOB NOT NULL, -- JSON: what became of each; empty: nothing yet
  unsettled  BIGINT NOT NULL, -- items that wait or failed
  failed     BIGINT NOT NULL,
  PRIMARY KEY (bulk_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS bulk_items;
DROP TABLE IF EXISTS bulks;
