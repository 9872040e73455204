-- Children by the time of their last change, folders and files apart: a page of a folder of 100,000 by time sorted all of it, 600 ms and
-- more each. A new node costs one entry of an index more, a moved, renamed, trashed or touched one two; what a person looks for is what has
-- changed last, and clients ask for pages of it all the time. By size and type a page still sorts the folder: that is asked for rarely.
-- Undo: drop the index.
-- +goose NO TRANSACTION
-- +goose Up
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'nodes' AND index_name = 'nodes_mtime') = 0,
  'CREATE INDEX nodes_mtime ON nodes (parent_id, type, trashed_at, mtime, slot)', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'nodes' AND index_name = 'nodes_mtime') > 0,
  'DROP INDEX nodes_mtime ON nodes', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;
