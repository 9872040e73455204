-- What lies below each folder: kept up by the transaction of each change, so that to ask for it, or for the folder's tag, costs a row
-- and not a walk. A folder without a row has not been added up yet; then none above it has one, up to the first in the trash. Rows of
-- folders that are there already are made when somebody asks for them first.
-- Undo: drop the table.
-- +goose Up
CREATE TABLE folder_sums (
  folder_id TEXT    NOT NULL PRIMARY KEY,
  seq       INTEGER NOT NULL, -- trees.seq of the last change below the folder
  files     INTEGER NOT NULL, -- live ones below it, as if the folder itself were live
  folders   INTEGER NOT NULL,
  size      INTEGER NOT NULL  -- of the current versions of those files
) WITHOUT ROWID;

-- +goose Down
DROP TABLE folder_sums;
