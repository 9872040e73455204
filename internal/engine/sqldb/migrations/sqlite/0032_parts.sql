-- A list that is too long for one zip becomes several batches: a row says of each which part of which set it is. A batch that is alone has
-- none.
-- Undo: drop the table; the parts are then batches of the same name.
-- +goose Up
CREATE TABLE export_parts (
  export_id TEXT    NOT NULL PRIMARY KEY,
  set_id    TEXT    NOT NULL, -- the first of them
  part      INTEGER NOT NULL, -- from 1
  parts     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX export_parts_set ON export_parts (set_id);

-- +goose Down
DROP TABLE export_parts;
