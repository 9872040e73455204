-- Content by digest. A blob's file never changes (B1); it is shared by reference count and released with its last
-- reference (B2): the row goes at once, the file 15 minutes later, and until then the released row explains it (B3).
-- +goose Up
CREATE TABLE blobs (
  id          TEXT    NOT NULL PRIMARY KEY,
  file        TEXT    NOT NULL UNIQUE, -- its name in the blob store
  algo        TEXT    NOT NULL, -- blake3
  digest      TEXT    NOT NULL, -- lower-case hex
  size        INTEGER NOT NULL,
  part_size   INTEGER NOT NULL,
  crc32       INTEGER NOT NULL, -- of the whole, IEEE
  refs        INTEGER NOT NULL CHECK (refs > 0),
  created_at  INTEGER NOT NULL,
  scrubbed_at INTEGER NOT NULL,
  damaged_at  INTEGER NOT NULL DEFAULT 0, -- when its bytes were found missing or changed
  parts       BLOB    NOT NULL -- 36 bytes a part: chaining value, CRC-32 little-endian
);
CREATE UNIQUE INDEX blobs_digest ON blobs (algo, digest, size);
CREATE INDEX blobs_scrub ON blobs (scrubbed_at);

CREATE TABLE aliases (
  algo    TEXT NOT NULL, -- sha256 | md5 | sm3
  digest  TEXT NOT NULL,
  blob_id TEXT NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
  PRIMARY KEY (algo, digest, blob_id)
) WITHOUT ROWID;
CREATE INDEX aliases_blob ON aliases (blob_id);

CREATE TABLE released (
  file        TEXT    NOT NULL PRIMARY KEY,
  size        INTEGER NOT NULL,
  released_at INTEGER NOT NULL
) WITHOUT ROWID;

-- +goose Down
DROP TABLE released;
DROP TABLE aliases;
DROP TABLE blobs;
