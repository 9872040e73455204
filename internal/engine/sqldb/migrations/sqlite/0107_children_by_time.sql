-- Children by the time of their last change, folders and files apart: a page of a folder of 100,000 by time sorted all of it, 600 ms and
-- more each. A new node costs one entry of an index more, a moved, renamed, trashed or touched one two; what a person looks for is what has
-- changed last, and clients ask for pages of it all the time. By size and type a page still sorts the folder: that is asked for rarely.
-- Undo: drop the index.
-- +goose Up
CREATE INDEX nodes_mtime ON nodes (parent_id, type, trashed_at, mtime, slot);

-- +goose Down
DROP INDEX nodes_mtime;
