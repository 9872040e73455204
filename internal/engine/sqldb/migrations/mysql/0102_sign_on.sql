-- Users whom an identity provider knows: id is SHA-256 of the issuer, a NUL and the subject, in hex. Groups that somebody is in because the provider says so.
-- A login that it vouches for ends at ends_at, however much it is used; 0: as others do.
-- A column cannot be added twice, and DDL cannot be taken back: it is added if it is not there.
-- Undo: drop all three; those users need a password then.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS identities (
  id         CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  issuer     VARBINARY(1024) NOT NULL,
  subject    VARBINARY(1024) NOT NULL,
  created_at BIGINT          NOT NULL,
  KEY identities_user (user_id),
  CONSTRAINT identities_users FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS identity_groups (
  user_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  group_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (user_id, group_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sessions' AND column_name = 'ends_at') = 0,
  'ALTER TABLE sessions ADD COLUMN ends_at BIGINT NOT NULL DEFAULT 0', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

-- +goose Down
SET @ddl = IF((SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'sessions' AND column_name = 'ends_at') > 0,
  'ALTER TABLE sessions DROP COLUMN ends_at', 'DO 0');
PREPARE ddl FROM @ddl;
EXECUTE ddl;
DEALLOCATE PREPARE ddl;

DROP TABLE IF EXISTS identity_groups;
DROP TABLE IF EXISTS identities;
