-- Users whom an identity provider knows: id is SHA-256 of the issuer, a NUL and the subject, in hex. Groups that somebody is in because the provider says so.
-- A login that it vouches for ends at ends_at, however much it is used; 0: as others do.
-- Undo: drop all three; those users need a password then.
-- +goose Up
CREATE TABLE identities (
  id         TEXT    NOT NULL PRIMARY KEY,
  user_id    TEXT    NOT NULL REFERENCES users (id),
  issuer     TEXT    NOT NULL,
  subject    TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX identities_user ON identities (user_id);

CREATE TABLE identity_groups (
  user_id  TEXT NOT NULL,
  group_id TEXT NOT NULL,
  PRIMARY KEY (user_id, group_id)
) WITHOUT ROWID;

ALTER TABLE sessions ADD COLUMN ends_at INTEGER NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE sessions DROP COLUMN ends_at;
DROP TABLE identity_groups;
DROP TABLE identities;
