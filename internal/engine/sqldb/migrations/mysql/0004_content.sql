-- Content by digest. A blob's file never changes (B1); it is shared by reference count and released with its last
-- reference (B2): the row goes at once, the file 15 minutes later, and until then the released row explains it (B3).
-- No foreign key refers to a blob: its row is what accounts compete for, and a check would lock it in another order than the
-- counting of references does. The auditor compares both.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS blobs (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  file        VARBINARY(255) NOT NULL, -- its name in the blob store
  algo        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- blake3
  digest      VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- lower-case hex
  size        BIGINT     NOT NULL,
  part_size   BIGINT     NOT NULL,
  crc32       BIGINT     NOT NULL, -- of the whole, IEEE
  refs        BIGINT     NOT NULL CHECK (refs > 0),
  created_at  BIGINT     NOT NULL,
  scrubbed_at BIGINT     NOT NULL,
  damaged_at  BIGINT     NOT NULL DEFAULT 0, -- when its bytes were found missing or changed
  parts       MEDIUMBLOB NOT NULL, -- 36 bytes a part: chaining value, CRC-32 little-endian
  UNIQUE KEY blobs_file (file),
  UNIQUE KEY blobs_digest (algo, digest, size),
  KEY blobs_scrub (scrubbed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS aliases (
  algo    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- sha256 | md5 | sm3
  digest  VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  blob_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (algo, digest, blob_id),
  KEY aliases_blob (blob_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS released (
  file        VARBINARY(255) NOT NULL PRIMARY KEY,
  size        BIGINT         NOT NULL,
  released_at BIGINT         NOT NULL,
  KEY released_age (released_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS released;
DROP TABLE IF EXISTS aliases;
DROP TABLE IF EXISTS blobs;
