-- A pack of small contents in a bucket is rewritten under a new name from here on, and no object changes (docs/formats/pack.md). Nothing
-- changes in the tables: an older release, which would not find what is left of such a pack, refuses the database by its number.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
