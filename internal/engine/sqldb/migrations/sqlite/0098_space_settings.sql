-- What the managers of a space decide: who gives out links, whether roles in it are given to others than members, and for how many days
-- the trash and old versions are kept (0: as long as the server keeps them). What is due of one account is listed by its own time then:
-- due_own takes the place of due_account, which is its beginning.
-- Undo: drop the columns and indexes; everybody then keeps what they had before, and links that were shut open again.
-- +goose Up
ALTER TABLE spaces ADD COLUMN links TEXT NOT NULL DEFAULT 'editors';
ALTER TABLE spaces ADD COLUMN outward TEXT NOT NULL DEFAULT 'managers';
ALTER TABLE spaces ADD COLUMN trash_days INTEGER NOT NULL DEFAULT 0;
ALTER TABLE spaces ADD COLUMN version_days INTEGER NOT NULL DEFAULT 0;
CREATE INDEX spaces_trash_days ON spaces (trash_days);
CREATE INDEX spaces_version_days ON spaces (version_days);
CREATE INDEX due_own ON due (account_id, kind, since, id);
DROP INDEX due_account;

-- +goose Down
CREATE INDEX due_account ON due (account_id);
DROP INDEX due_own;
DROP INDEX spaces_version_days;
DROP INDEX spaces_trash_days;
ALTER TABLE spaces DROP COLUMN version_days;
ALTER TABLE spaces DROP COLUMN trash_days;
ALTER TABLE spaces DROP COLUMN outward;
ALTER TABLE spaces DROP COLUMN links;
