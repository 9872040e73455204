-- What the heads of tus and of the IETF draft keep beside an upload that is filled by offset, and the partial uploads that a
-- concatenation has taken over: their bytes are the final's, and are removed when it has ended. Native uploads have neither.
-- Undo: drop both; open uploads of these heads are then answered as native ones, and stagings of partial ones are strays.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS upload_heads (
  upload_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  kind      TINYINT  NOT NULL, -- 0 whole | 1 partial | 2 final
  protocol  TINYINT  NOT NULL, -- 0 native | 1 tus | 2 resumable uploads for HTTP
  metadata  BLOB     NOT NULL, -- as the client gave it
  partials  MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- final: JSON [upload id, ...] in order
  final_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- partial: who has taken it over; NULL: nobody
  CONSTRAINT upload_heads_uploads FOREIGN KEY (upload_id) REFERENCES uploads (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
CREATE TABLE IF NOT EXISTS upload_joins (
  partial_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  final_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n          BIGINT   NOT NULL, -- place among the partial uploads of the final
  begun_at   BIGINT   NOT NULL, -- with part_size, what names the staged upload
  part_size  BIGINT   NOT NULL,
  size       BIGINT   NOT NULL,
  KEY upload_joins_final (final_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS upload_joins;
DROP TABLE IF EXISTS upload_heads;
