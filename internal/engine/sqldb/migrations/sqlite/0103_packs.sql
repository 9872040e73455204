-- Small contents lie in packs from here on (docs/formats/pack.md). Nothing changes in the tables: an older release, which would
-- not find what blobs.file names then, refuses the database by its number.

-- +goose Up
SELECT 1;

-- +goose Down
SELECT 1;
