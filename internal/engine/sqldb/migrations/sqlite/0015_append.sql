-- What the heads of tus and of the IETF draft keep beside an upload that is filled by offset, and the partial uploads that a
-- concatenation has taken over: their bytes are the final's, and are removed when it has ended. Native uploads have neither.
-- Undo: drop both; open uploads of these heads are then answered as native ones, and stagings of partial ones are strays.
-- +goose Up
CREATE TABLE upload_heads (
  upload_id TEXT    NOT NULL PRIMARY KEY REFERENCES uploads (id) ON DELETE CASCADE,
  kind      INTEGER NOT NULL, -- 0 whole | 1 partial | 2 final
  protocol  INTEGER NOT NULL, -- 0 native | 1 tus | 2 resumable uploads for HTTP
  metadata  TEXT    NOT NULL, -- as the client gave it
  partials  TEXT    NOT NULL, -- final: JSON [upload id, ...] in order
  final_id  TEXT              -- partial: who has taken it over; NULL: nobody
) WITHOUT ROWID;
CREATE TABLE upload_joins (
  partial_id TEXT    NOT NULL PRIMARY KEY,
  final_id   TEXT    NOT NULL,
  n          INTEGER NOT NULL, -- place among the partial uploads of the final
  begun_at   INTEGER NOT NULL, -- with part_size, what names the staged upload
  part_size  INTEGER NOT NULL,
  size       INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX upload_joins_final ON upload_joins (final_id, n);

-- +goose Down
DROP TABLE upload_joins;
DROP TABLE upload_heads;
