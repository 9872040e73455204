-- The schema of release 0.1.0. It replaces the migrations of the development versions, 1 to 119. migrate.go stamps a
-- database of version 119, whose schema is the same, and refuses older ones.
-- The tables and columns are those of migrations/sqlite, which describes them; comments here name only what differs.
-- DDL is not transactional: this file can be repeated from its start. Ids are CHAR(36) in ascii. Text that users choose and that
-- is compared (names, keys, paths) is VARBINARY: UTF-8 bytes in their order, as SQLite compares them. A character collation
-- would treat "a" and "a " as equal (PAD SPACE). Foreign keys refer only to rows that rarely change (accounts, users), because a
-- check locks the row. Nothing refers to blobs, for which accounts compete, and nothing within a tree: each new child would lock
-- its folder.
-- Undo: drop the database.
-- +goose NO TRANSACTION
-- +goose Up

-- Installation.

CREATE TABLE IF NOT EXISTS meta (
  name  VARBINARY(64) NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- People and accounts.

CREATE TABLE IF NOT EXISTS accounts (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  created_at BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS users (
  id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name          VARBINARY(255) NOT NULL,
  slot          VARBINARY(255) NOT NULL,
  password      VARCHAR(255) NOT NULL,
  admin         TINYINT NOT NULL,
  state         VARCHAR(16) NOT NULL,
  link_epoch    BIGINT NOT NULL DEFAULT 0,
  created_at    BIGINT NOT NULL,
  updated_at    BIGINT NOT NULL,
  deleted_at    BIGINT NOT NULL DEFAULT 0,
  must_change   TINYINT NOT NULL DEFAULT 0,
  last_login_at BIGINT NOT NULL DEFAULT 0,
  UNIQUE KEY users_slot (slot),
  KEY users_account (account_id),
  KEY users_deleted (deleted_at),
  KEY users_admin (admin, state), -- a locking read, which must not lock all users
  CONSTRAINT users_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS sessions (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) NOT NULL,
  name       VARBINARY(512) NOT NULL,
  secret     BINARY(32) NOT NULL,
  scopes     BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  heads      BIGINT NOT NULL DEFAULT 1,
  ends_at    BIGINT NOT NULL DEFAULT 0,
  UNIQUE KEY sessions_secret (secret),
  KEY sessions_user (user_id, kind),
  KEY sessions_expiry (expires_at),
  CONSTRAINT sessions_users FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Quota.

CREATE TABLE IF NOT EXISTS ledgers (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  total      BIGINT,
  finished   BIGINT NOT NULL DEFAULT 0 CHECK (finished >= 0),
  unfinished BIGINT NOT NULL DEFAULT 0 CHECK (unfinished >= 0),
  reserved   BIGINT NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  version    BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT ledgers_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Content.

CREATE TABLE IF NOT EXISTS blobs (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  file        VARBINARY(255) NOT NULL,
  algo        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  digest      VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size        BIGINT NOT NULL,
  part_size   BIGINT NOT NULL,
  crc32       BIGINT NOT NULL,
  refs        BIGINT NOT NULL CHECK (refs > 0),
  created_at  BIGINT NOT NULL,
  scrubbed_at BIGINT NOT NULL,
  damaged_at  BIGINT NOT NULL DEFAULT 0,
  parts       MEDIUMBLOB NOT NULL,
  UNIQUE KEY blobs_file (file),
  UNIQUE KEY blobs_digest (algo, digest, size),
  KEY blobs_scrub (scrubbed_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS aliases (
  algo    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  digest  VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  blob_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (algo, digest, blob_id),
  KEY aliases_blob (blob_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS released (
  file        VARBINARY(255) NOT NULL PRIMARY KEY,
  size        BIGINT NOT NULL,
  released_at BIGINT NOT NULL,
  KEY released_age (released_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Files and folders.

CREATE TABLE IF NOT EXISTS trees (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  root_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL,
  forgotten  BIGINT NOT NULL DEFAULT 0,
  node_count BIGINT NOT NULL,
  closed     BIGINT NOT NULL DEFAULT 0,
  changed_on BIGINT NOT NULL DEFAULT 0,
  changed    BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS nodes (
  id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parent_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  name         VARBINARY(255) NOT NULL,
  name_fold    VARBINARY(1024) NOT NULL, -- folding may triple the length
  slot         VARBINARY(255) NOT NULL,
  type         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  version_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  mtime        BIGINT NOT NULL,
  rev          BIGINT NOT NULL,
  seq          BIGINT NOT NULL,
  created_at   BIGINT NOT NULL,
  updated_at   BIGINT NOT NULL,
  trashed_at   BIGINT NOT NULL DEFAULT 0,
  operation_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  UNIQUE KEY nodes_slot (parent_id, slot),
  KEY nodes_seq (account_id, seq),
  KEY nodes_search (account_id, name_fold),
  KEY nodes_trash (account_id, trashed_at),
  KEY nodes_mtime (parent_id, type, trashed_at, mtime, slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS versions (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  blob_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT NOT NULL,
  mtime      BIGINT NOT NULL,
  mime       VARBINARY(255) NOT NULL,
  created_at BIGINT NOT NULL,
  created_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  KEY versions_node (node_id, id),
  KEY versions_blob (blob_id),
  KEY versions_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS tombstones (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  deleted_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, seq),
  KEY tombstones_node (node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS operations (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  args       LONGTEXT NOT NULL,
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  done       BIGINT NOT NULL DEFAULT 0,
  total      BIGINT NOT NULL DEFAULT 0,
  error      VARCHAR(64) NOT NULL DEFAULT '',
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  KEY operations_state (state, id),
  KEY operations_account (account_id),
  KEY operations_ended (state, updated_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Uploads.

CREATE TABLE IF NOT EXISTS uploads (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parent_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name        VARBINARY(255) NOT NULL,
  conflict    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  base        CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  size        BIGINT,
  part_size   BIGINT NOT NULL,
  mtime       BIGINT NOT NULL,
  mime        VARBINARY(255) NOT NULL,
  fingerprint VARBINARY(255) NOT NULL,
  digests     TEXT NOT NULL,
  state       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  gen         BIGINT NOT NULL,
  reserved    BIGINT NOT NULL,
  held        BIGINT NOT NULL,
  received    BIGINT NOT NULL DEFAULT 0,
  resumes     BIGINT NOT NULL DEFAULT 0,
  challenge   MEDIUMTEXT NOT NULL,
  node_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  reason      VARCHAR(64) NOT NULL DEFAULT '',
  created_at  BIGINT NOT NULL,
  active_at   BIGINT NOT NULL,
  ended_at    BIGINT NOT NULL DEFAULT 0,
  KEY uploads_open (account_id, state, parent_id, name),
  KEY uploads_state (state, id),
  KEY uploads_ended (ended_at),
  CONSTRAINT uploads_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS refusals (
  user_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  digest  VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  until   BIGINT NOT NULL,
  bytes   BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (user_id, digest),
  KEY refusals_until (until)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Idempotency.

CREATE TABLE IF NOT EXISTS idempotency (
  user_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  method      VARBINARY(16) NOT NULL,
  route       VARBINARY(255) NOT NULL,
  `key`       VARBINARY(255) NOT NULL,
  fingerprint BINARY(32) NOT NULL,
  status      BIGINT NOT NULL,
  body        MEDIUMBLOB NOT NULL,
  created_at  BIGINT NOT NULL,
  PRIMARY KEY (user_id, method, route, `key`),
  KEY idempotency_age (created_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Event stream.

CREATE TABLE IF NOT EXISTS outbox (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, -- the offset; a smaller one may become visible after a larger one
  event_id   VARBINARY(255) NOT NULL,
  topic      VARBINARY(128) NOT NULL,
  `key`      VARBINARY(64) NOT NULL,
  event      MEDIUMTEXT NOT NULL,
  created_at BIGINT NOT NULL,
  sent_at    BIGINT,
  UNIQUE KEY outbox_event (event_id),
  KEY outbox_topic (topic),
  KEY outbox_unsent (sent_at) -- in the order of ids
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS cursors (
  consumer VARBINARY(128) NOT NULL,
  topic    VARBINARY(128) NOT NULL,
  position BIGINT NOT NULL,
  PRIMARY KEY (consumer, topic),
  KEY cursors_behind (topic, position)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS deliveries (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  consumer   VARBINARY(128) NOT NULL,
  topic      VARBINARY(128) NOT NULL,
  `key`      VARBINARY(64) NOT NULL,
  event      MEDIUMTEXT NOT NULL,
  failures   BIGINT NOT NULL,
  kind       VARBINARY(64) NOT NULL,
  error      MEDIUMTEXT NOT NULL,
  not_before BIGINT NOT NULL,
  KEY deliveries_due (consumer, topic, not_before)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dead_letters (
  id       BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  consumer VARBINARY(128) NOT NULL,
  topic    VARBINARY(128) NOT NULL,
  `key`    VARBINARY(64) NOT NULL,
  event    MEDIUMTEXT NOT NULL,
  failures BIGINT NOT NULL,
  kind     VARBINARY(64) NOT NULL,
  error    MEDIUMTEXT NOT NULL,
  died_at  BIGINT NOT NULL,
  event_id VARBINARY(255),
  UNIQUE KEY dead_letters_event (consumer, event_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Audit.

CREATE TABLE IF NOT EXISTS findings (
  id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  found_at  BIGINT NOT NULL,
  seen_at   BIGINT NOT NULL,
  invariant VARBINARY(16) NOT NULL,
  subject   VARBINARY(4096) NOT NULL,
  expected  BLOB NOT NULL,
  found     BLOB NOT NULL,
  nodes     MEDIUMTEXT NOT NULL,
  repaired  TINYINT NOT NULL,
  KEY findings_subject (subject(255), invariant),
  KEY findings_seen (seen_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Instances.

CREATE TABLE IF NOT EXISTS instances (
  generation BIGINT NOT NULL PRIMARY KEY,
  id         VARBINARY(64) NOT NULL,
  host       VARBINARY(255) NOT NULL,
  roles      VARBINARY(255) NOT NULL,
  version    VARBINARY(255) NOT NULL,
  joined_at  BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,
  ended_at   BIGINT
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS leases (
  name       VARBINARY(128) NOT NULL PRIMARY KEY,
  generation BIGINT NOT NULL,
  epoch      BIGINT NOT NULL,
  taken_at   BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS drains (
  log      VARBINARY(255) NOT NULL,
  shard    BIGINT NOT NULL,
  position BIGINT NOT NULL,
  PRIMARY KEY (log, shard)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Share links and collect links.

CREATE TABLE IF NOT EXISTS shares (
  id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
  code          VARBINARY(64) NOT NULL,
  epoch         BIGINT NOT NULL,
  expires_at    BIGINT NOT NULL,
  max_downloads BIGINT,
  downloads     BIGINT NOT NULL DEFAULT 0,
  views         BIGINT NOT NULL DEFAULT 0,
  created_at    BIGINT NOT NULL,
  KEY shares_account (account_id, id),
  KEY shares_node (node_id),
  CONSTRAINT shares_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS share_downloads (
  visit_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  share_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  begun_at BIGINT NOT NULL,
  ahead    TINYINT NOT NULL DEFAULT 0,
  PRIMARY KEY (visit_id, node_id),
  KEY share_downloads_age (begun_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS share_attempts (
  subject    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  tries      BIGINT NOT NULL,
  started_at BIGINT NOT NULL,
  KEY share_attempts_age (started_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS collects (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  folder_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  token      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL UNIQUE,
  title      VARBINARY(512) NOT NULL,
  message    TEXT NOT NULL,
  expires_at BIGINT NOT NULL,
  max_bytes  BIGINT,
  max_file   BIGINT,
  files      BIGINT NOT NULL DEFAULT 0,
  received   BIGINT NOT NULL DEFAULT 0,
  created_at BIGINT NOT NULL,
  KEY collects_account (account_id, id),
  CONSTRAINT collects_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS collected (
  upload_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  collect_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sender_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sender     VARBINARY(512) NOT NULL,
  name       VARBINARY(255) NOT NULL,
  size       BIGINT NOT NULL,
  digests    TEXT NOT NULL,
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  created_at BIGINT NOT NULL,
  KEY collected_link (collect_id, state, upload_id),
  KEY collected_sender (sender_id, upload_id),
  KEY collected_account (account_id),
  KEY collected_open (state, collect_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Preferences.

CREATE TABLE IF NOT EXISTS preferences (
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  value      LONGTEXT NOT NULL,
  updated_at BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Exports.

CREATE TABLE IF NOT EXISTS exports (
  id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name         VARBINARY(255) NOT NULL,
  origin       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  request      LONGTEXT NOT NULL,
  slot         VARBINARY(128) NOT NULL,
  root_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  revision     BIGINT NOT NULL,
  parent_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  priority     BIGINT NOT NULL,
  state        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  total        BIGINT NOT NULL,
  collected    BIGINT NOT NULL DEFAULT 0,
  failed       BIGINT NOT NULL DEFAULT 0,
  bytes        BIGINT NOT NULL DEFAULT 0,
  save_point   BIGINT NOT NULL DEFAULT 0,
  epoch        BIGINT NOT NULL DEFAULT 0,
  worker       VARBINARY(255) NOT NULL,
  machine      VARBINARY(255) NOT NULL,
  due_at       BIGINT NOT NULL,
  yield_at     BIGINT NOT NULL DEFAULT 0,
  avoid        VARBINARY(255) NOT NULL,
  avoid_until  BIGINT NOT NULL DEFAULT 0,
  tries        BIGINT NOT NULL DEFAULT 0,
  handovers    BIGINT NOT NULL DEFAULT 0,
  claimed_at   BIGINT NOT NULL DEFAULT 0,
  claimed_done BIGINT NOT NULL DEFAULT 0,
  error        VARBINARY(64) NOT NULL,
  size         BIGINT NOT NULL DEFAULT 0,
  etag         VARBINARY(128) NOT NULL,
  list_epoch   BIGINT NOT NULL DEFAULT 0,
  created_at   BIGINT NOT NULL,
  begun_at     BIGINT NOT NULL DEFAULT 0,
  ended_at     BIGINT NOT NULL DEFAULT 0,
  expires_at   BIGINT NOT NULL DEFAULT 0,
  released_at  BIGINT NOT NULL DEFAULT 0,
  late_at      BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT exports_dealt CHECK (collected + failed <= total),
  CONSTRAINT exports_complete CHECK (state <> 'sealed' OR collected + failed = total),
  UNIQUE KEY exports_slot (slot),
  UNIQUE KEY exports_revision (root_id, revision),
  KEY exports_due (state, due_at),
  KEY exports_account (account_id, id),
  KEY exports_ended (released_at, state, expires_at),
  KEY exports_begun (state, begun_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_wants (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n         BIGINT NOT NULL,
  doc       VARBINARY(255) NOT NULL,
  node_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  url       VARBINARY(4096) NOT NULL,
  path      VARBINARY(4096) NOT NULL,
  name      VARBINARY(4096) NOT NULL,
  mtime     BIGINT NOT NULL DEFAULT 0,
  from_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  from_n    BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (export_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_pins (
  export_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n          BIGINT NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  blob_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT NOT NULL,
  crc32      BIGINT NOT NULL,
  mtime      BIGINT NOT NULL,
  charged    BIGINT NOT NULL,
  PRIMARY KEY (export_id, n),
  KEY export_pins_blob (blob_id),
  KEY export_pins_account (account_id, charged)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_errors (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n         BIGINT NOT NULL,
  doc       VARBINARY(255) NOT NULL,
  path      VARBINARY(4096) NOT NULL,
  reason    VARBINARY(64) NOT NULL,
  detail    VARBINARY(255) NOT NULL,
  at        BIGINT NOT NULL,
  PRIMARY KEY (export_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_lists (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  epoch     BIGINT NOT NULL,
  n         BIGINT NOT NULL,
  body      LONGBLOB NOT NULL,
  PRIMARY KEY (export_id, epoch, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_machines (
  machine VARBINARY(255) NOT NULL PRIMARY KEY,
  seen_at BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_schedules (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  filter     LONGTEXT NOT NULL,
  zone       VARBINARY(64) NOT NULL,
  priority   BIGINT NOT NULL,
  month      BIGINT NOT NULL,
  due_at     BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  KEY export_schedules_due (due_at),
  KEY export_schedules_account (account_id, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_jobs (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  export_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  folder_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  epoch      BIGINT NOT NULL DEFAULT 0,
  worker     VARBINARY(255) NOT NULL,
  machine    VARBINARY(255) NOT NULL,
  due_at     BIGINT NOT NULL,
  tries      BIGINT NOT NULL DEFAULT 0,
  upload_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  sent       BIGINT NOT NULL DEFAULT 0,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  error      VARBINARY(64) NOT NULL,
  created_at BIGINT NOT NULL,
  ended_at   BIGINT NOT NULL DEFAULT 0,
  KEY export_jobs_due (state, due_at),
  KEY export_jobs_export (export_id),
  KEY export_jobs_account (account_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Upload protocols.

CREATE TABLE IF NOT EXISTS upload_heads (
  upload_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  kind      TINYINT NOT NULL,
  protocol  TINYINT NOT NULL,
  metadata  BLOB NOT NULL,
  partials  MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  final_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  CONSTRAINT upload_heads_uploads FOREIGN KEY (upload_id) REFERENCES uploads (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS upload_joins (
  partial_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  final_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n          BIGINT NOT NULL,
  begun_at   BIGINT NOT NULL,
  part_size  BIGINT NOT NULL,
  size       BIGINT NOT NULL,
  KEY upload_joins_final (final_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Intake of bundles of documents.

CREATE TABLE IF NOT EXISTS sources (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  rules      TEXT NOT NULL,
  updated_at BIGINT NOT NULL,
  plain      BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (account_id, name),
  KEY sources_plain (plain, account_id, name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bundles (
  id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source       VARBINARY(255) NOT NULL,
  sender_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  folder_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  meta_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  meta_version CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  state        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason       VARBINARY(64) NOT NULL,
  detail       VARBINARY(1024) NOT NULL,
  declared     BIGINT NOT NULL DEFAULT 0,
  accepted     BIGINT NOT NULL DEFAULT 0,
  rejected     BIGINT NOT NULL DEFAULT 0,
  duplicates   BIGINT NOT NULL DEFAULT 0,
  conflicts    BIGINT NOT NULL DEFAULT 0,
  surplus      BIGINT NOT NULL DEFAULT 0,
  members      BIGINT NOT NULL DEFAULT 0,
  size         BIGINT NOT NULL DEFAULT 0,
  checked      BIGINT NOT NULL DEFAULT 0,
  save_member  BIGINT NOT NULL DEFAULT 0,
  save_index   BIGINT NOT NULL DEFAULT 0,
  epoch        BIGINT NOT NULL DEFAULT 0,
  worker       VARBINARY(255) NOT NULL,
  due_at       BIGINT NOT NULL,
  tries        BIGINT NOT NULL DEFAULT 0,
  attempts     BIGINT NOT NULL DEFAULT 0,
  sealed_at    BIGINT NOT NULL,
  waits_until  BIGINT NOT NULL,
  ended_at     BIGINT NOT NULL DEFAULT 0,
  CONSTRAINT bundles_dealt CHECK (accepted + rejected + duplicates + conflicts <= declared),
  CONSTRAINT bundles_counted CHECK (state NOT IN ('done', 'rejected') OR declared = accepted + rejected + duplicates + conflicts),
  UNIQUE KEY bundles_folder (folder_id),
  KEY bundles_due (state, due_at),
  KEY bundles_account (account_id, id),
  KEY bundles_turn (state, account_id, due_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bundle_members (
  bundle_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n         BIGINT NOT NULL,
  name      VARBINARY(255) NOT NULL,
  size      BIGINT NOT NULL,
  type      VARBINARY(255) NOT NULL,
  sha256    CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  documents BIGINT NOT NULL,
  node_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  blob_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  state     VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason    VARBINARY(64) NOT NULL,
  PRIMARY KEY (bundle_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bundle_records (
  bundle_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  member      BIGINT NOT NULL,
  idx         BIGINT NOT NULL,
  outcome     VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason      VARBINARY(64) NOT NULL,
  counts      BIGINT NOT NULL,
  document_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  number      VARBINARY(255) NOT NULL,
  findings    TEXT NOT NULL,
  decided_by  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NULL,
  decided_at  BIGINT NOT NULL DEFAULT 0,
  decision    VARCHAR(500) NOT NULL DEFAULT '',
  PRIMARY KEY (bundle_id, member, idx),
  KEY bundle_records_outcome (bundle_id, outcome, member, idx),
  KEY bundle_records_document (document_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS documents (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source      VARBINARY(255) NOT NULL,
  doc_key     CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  hash        CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  bundle_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  member      BIGINT NOT NULL,
  idx         BIGINT NOT NULL,
  type        VARBINARY(255) NOT NULL,
  number      VARBINARY(255) NOT NULL,
  dated       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seller_id   VARBINARY(255) NOT NULL,
  seller_name VARBINARY(1024) NOT NULL,
  buyer_id    VARBINARY(255) NOT NULL,
  buyer_name  VARBINARY(1024) NOT NULL,
  currency    VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  total       VARBINARY(128) NOT NULL,
  payable     VARBINARY(128) NOT NULL,
  total_e4    BIGINT NOT NULL,
  state       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  file_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  pdf_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  search      VARCHAR(1024) NOT NULL,
  body        LONGBLOB NOT NULL,
  created_at  BIGINT NOT NULL,
  updated_at  BIGINT NOT NULL,
  UNIQUE KEY documents_key (account_id, doc_key),
  KEY documents_dated (account_id, dated, id),
  KEY documents_source (account_id, source, dated, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS document_conflicts (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  document_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  hash        CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  bundle_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  member      BIGINT NOT NULL,
  idx         BIGINT NOT NULL,
  file_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  pdf_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  body        LONGBLOB NOT NULL,
  state       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at  BIGINT NOT NULL,
  settled_at  BIGINT NOT NULL DEFAULT 0,
  settled_by  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  UNIQUE KEY document_conflicts_side (document_id, hash),
  KEY document_conflicts_open (account_id, state, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Migration to another database.

CREATE TABLE IF NOT EXISTS migration_side (
  id         BIGINT NOT NULL PRIMARY KEY CHECK (id = 1),
  migration  VARBINARY(64) NOT NULL,
  role       BIGINT NOT NULL,
  epoch      BIGINT NOT NULL,
  term       BIGINT NOT NULL,
  phase      BIGINT NOT NULL,
  percent    BIGINT NOT NULL,
  careful    BIGINT NOT NULL,
  paused     BIGINT NOT NULL,
  applying   BIGINT NOT NULL DEFAULT 0, -- unused: the triggers recognise such a connection because it checks no foreign keys
  here       TEXT NOT NULL,
  peer       TEXT NOT NULL,
  contents   TEXT NOT NULL,
  marker     VARBINARY(64) NOT NULL,
  changed_at BIGINT NOT NULL,
  begun_at   BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_changes (
  seq     BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  tbl     VARBINARY(64) NOT NULL,
  k       VARBINARY(2048) NOT NULL,
  account VARBINARY(64) NOT NULL,
  KEY migration_changes_account (account)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_versions (
  tbl     VARBINARY(64) NOT NULL,
  k       VARBINARY(2048) NOT NULL,
  version BIGINT NOT NULL,
  deleted BIGINT NOT NULL,
  PRIMARY KEY (tbl, k)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_progress (
  kind   VARBINARY(16) NOT NULL,
  tbl    VARBINARY(64) NOT NULL,
  last   VARBINARY(2048) NOT NULL,
  done   BIGINT NOT NULL,
  total  BIGINT NOT NULL,
  ended  BIGINT NOT NULL,
  digest VARBINARY(128) NOT NULL,
  PRIMARY KEY (kind, tbl)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_acks (
  instance BIGINT NOT NULL PRIMARY KEY,
  epoch    BIGINT NOT NULL,
  seen_at  BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_checksums (
  id        VARBINARY(64) NOT NULL PRIMARY KEY,
  migration VARBINARY(64) NOT NULL,
  marker    VARBINARY(64) NOT NULL,
  term      BIGINT NOT NULL,
  state     VARBINARY(16) NOT NULL,
  row_count BIGINT NOT NULL,
  unequal   BIGINT NOT NULL,
  digest    VARBINARY(128) NOT NULL,
  begun_at  BIGINT NOT NULL,
  ended_at  BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_mismatches (
  id        BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  migration VARBINARY(64) NOT NULL,
  source    VARBINARY(16) NOT NULL,
  subject   MEDIUMBLOB NOT NULL,
  ours      MEDIUMBLOB NOT NULL,
  theirs    MEDIUMBLOB NOT NULL,
  found_at  BIGINT NOT NULL,
  explained BIGINT NOT NULL DEFAULT 0
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS copies (
  file VARBINARY(255) NOT NULL PRIMARY KEY
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_waits (
  instance BIGINT NOT NULL PRIMARY KEY,
  epoch    BIGINT NOT NULL,
  why      TEXT NOT NULL,
  seen_at  BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_explained (
  mismatch BIGINT NOT NULL PRIMARY KEY,
  who      VARBINARY(255) NOT NULL,
  why      TEXT NOT NULL,
  at       BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS migration_notes (
  name  VARBINARY(64) NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Deleted content, charged to the account that deleted it.

CREATE TABLE IF NOT EXISTS owed_files (
  file       VARBINARY(255) NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT NOT NULL,
  KEY owed_files_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS owed (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  size       BIGINT NOT NULL CHECK (size >= 0)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_texts (
  export_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  size       BIGINT NOT NULL,
  KEY export_texts_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS old_versions (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  n          BIGINT NOT NULL CHECK (n >= 0)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS share_texts (
  share_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  sealed   VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  CONSTRAINT share_texts_shares FOREIGN KEY (share_id) REFERENCES shares (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS collect_texts (
  collect_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  sealed     VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  CONSTRAINT collect_texts_collects FOREIGN KEY (collect_id) REFERENCES collects (id) ON DELETE CASCADE
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS due (
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  since      BIGINT NOT NULL,
  PRIMARY KEY (kind, id),
  KEY due_since (kind, since, id),
  KEY due_own (account_id, kind, since, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Downloads of selections.

CREATE TABLE IF NOT EXISTS archives (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  folder_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  nodes      MEDIUMBLOB NOT NULL,
  picked     BIGINT NOT NULL,
  etag       VARBINARY(128) NOT NULL,
  made_at    BIGINT NOT NULL,
  KEY archives_account (account_id, made_at, id, picked),
  KEY archives_made (made_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_turns (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  turn_at    BIGINT NOT NULL,
  KEY export_turns_at (turn_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Bulk operations.

CREATE TABLE IF NOT EXISTS bulks (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  parent_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  conflict   VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  source_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  filled     BIGINT NOT NULL,
  undone_by  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  state      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  stopping   BIGINT NOT NULL,
  piece      BIGINT NOT NULL,
  item       BIGINT NOT NULL,
  child_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  done       BIGINT NOT NULL,
  failed     BIGINT NOT NULL,
  total      BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  KEY bulks_account (account_id, id),
  KEY bulks_state (state, id),
  KEY bulks_ended (state, updated_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS bulk_items (
  bulk_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n          BIGINT NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  items      MEDIUMBLOB NOT NULL,
  record     MEDIUMBLOB NOT NULL,
  unsettled  BIGINT NOT NULL,
  failed     BIGINT NOT NULL,
  PRIMARY KEY (bulk_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_parts (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  set_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  part      BIGINT NOT NULL,
  parts     BIGINT NOT NULL,
  KEY export_parts_set (set_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_marks (
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  mark       CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL,
  at         BIGINT NOT NULL,
  PRIMARY KEY (account_id, mark)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Timers.

CREATE TABLE IF NOT EXISTS timer_steps (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  timer      VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  gen        BIGINT NOT NULL,
  step       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  begun_at   BIGINT NOT NULL,
  done_at    BIGINT NOT NULL,
  delivery   BIGINT NOT NULL,
  instance   VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason     VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  push_backs BIGINT NOT NULL DEFAULT 0,
  pushed_at  BIGINT NOT NULL DEFAULT 0,
  shard      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  slice      VARCHAR(24) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
  KEY timer_steps_timer (timer, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Spaces, groups and grants.

CREATE TABLE IF NOT EXISTS spaces (
  account_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  root_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name         VARBINARY(255) NOT NULL,
  slot         VARBINARY(1024) NOT NULL,
  state        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_by   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at   BIGINT NOT NULL,
  updated_at   BIGINT NOT NULL,
  deleted_at   BIGINT NOT NULL DEFAULT 0,
  links        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'editors',
  outward      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'managers',
  trash_days   BIGINT NOT NULL DEFAULT 0,
  version_days BIGINT NOT NULL DEFAULT 0,
  UNIQUE KEY spaces_slot (slot),
  KEY spaces_deleted (deleted_at),
  KEY spaces_trash_days (trash_days),
  KEY spaces_version_days (version_days),
  CONSTRAINT spaces_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS user_groups (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  name       VARBINARY(255) NOT NULL,
  slot       VARBINARY(1024) NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  UNIQUE KEY user_groups_slot (slot)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS group_members (
  group_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (group_id, user_id),
  KEY group_members_user (user_id, group_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS grants (
  node_id      CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  principal_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  role         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  granted_by   CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  note         VARBINARY(1024) NOT NULL,
  created_at   BIGINT NOT NULL,
  updated_at   BIGINT NOT NULL,
  expires_at   BIGINT NOT NULL,
  PRIMARY KEY (node_id, principal_id),
  KEY grants_principal (principal_id, account_id, node_id),
  KEY grants_account (account_id, node_id, principal_id),
  KEY grants_end (expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Activity and webhooks.

CREATE TABLE IF NOT EXISTS activity (
  id         BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  salt       BIGINT NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  seq        BIGINT NOT NULL,
  at         BIGINT NOT NULL,
  verb       VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  session_id VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  head       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  address    VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  folder_id  VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  data       VARBINARY(2048) NOT NULL,
  KEY activity_account (account_id, id),
  KEY activity_node (node_id, id),
  KEY activity_folder (folder_id, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS webhooks (
  id            CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name          VARBINARY(255) NOT NULL,
  url           VARBINARY(2048) NOT NULL,
  secret        VARBINARY(1024) NOT NULL,
  types         VARBINARY(1024) NOT NULL,
  state         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  reason        VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  position      BIGINT NOT NULL,
  skipped       BIGINT NOT NULL,
  failures      BIGINT NOT NULL,
  failing_since BIGINT NOT NULL,
  not_before    BIGINT NOT NULL,
  status        BIGINT NOT NULL,
  error         VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  sent_at       BIGINT NOT NULL,
  created_at    BIGINT NOT NULL,
  updated_at    BIGINT NOT NULL,
  old_secret    VARBINARY(1024) NOT NULL DEFAULT '',
  old_until     BIGINT NOT NULL DEFAULT 0,
  KEY webhooks_account (account_id, id),
  KEY webhooks_due (state, not_before),
  CONSTRAINT webhooks_accounts FOREIGN KEY (account_id) REFERENCES accounts (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS mounts (
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  name       VARBINARY(255) NOT NULL,
  hidden     TINYINT NOT NULL,
  updated_at BIGINT NOT NULL,
  shown      VARBINARY(300) NOT NULL DEFAULT '',
  PRIMARY KEY (node_id, user_id),
  KEY mounts_user (user_id, node_id),
  KEY mounts_shown (user_id, shown)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS stars (
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (node_id, user_id),
  KEY stars_user (user_id, created_at, node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- WebDAV.

CREATE TABLE IF NOT EXISTS dav_locks (
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  scope      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  deep       BIGINT NOT NULL,
  made       BIGINT NOT NULL,
  owner      VARBINARY(2048) NOT NULL,
  lasts      BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  KEY dav_locks_node (node_id),
  KEY dav_locks_account (account_id, expires_at),
  KEY dav_locks_end (expires_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS dav_properties (
  node_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  space      VARBINARY(255) NOT NULL,
  name       VARBINARY(255) NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  value      MEDIUMBLOB NOT NULL,
  size       BIGINT NOT NULL,
  PRIMARY KEY (node_id, space, name),
  KEY dav_properties_account (account_id, size)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Numeric ids.

CREATE TABLE IF NOT EXISTS node_numbers (
  number  BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  UNIQUE KEY node_numbers_node (node_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Operation.

CREATE TABLE IF NOT EXISTS growth (
  day        CHAR(10) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  at         BIGINT NOT NULL,
  accounts   BIGINT NOT NULL,
  finished   BIGINT NOT NULL,
  unfinished BIGINT NOT NULL,
  free       BIGINT,
  PRIMARY KEY (day)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS share_numbers (
  number  BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  subject CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  UNIQUE KEY share_numbers_subject (node_id, subject)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS settings (
  name       VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  value      TEXT NOT NULL,
  changed_at BIGINT NOT NULL,
  changed_by VARCHAR(255),
  PRIMARY KEY (name)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Notifications.

CREATE TABLE IF NOT EXISTS notices (
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  id         CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kind       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  what       VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id    VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  by_id      VARCHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  data       VARBINARY(2048) NOT NULL,
  at         BIGINT NOT NULL,
  read_at    BIGINT NOT NULL,
  mail       BIGINT NOT NULL,
  PRIMARY KEY (user_id, id),
  KEY notices_at (at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS notice_people (
  user_id       CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  address       VARBINARY(255) NOT NULL,
  state         VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  code          VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  code_until    BIGINT NOT NULL,
  code_tries    BIGINT NOT NULL,
  codes         BIGINT NOT NULL,
  codes_since   BIGINT NOT NULL,
  language      VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  channels      VARBINARY(1024) NOT NULL,
  due_at        BIGINT NOT NULL,
  sent_at       BIGINT NOT NULL,
  failures      BIGINT NOT NULL,
  failing_since BIGINT NOT NULL,
  updated_at    BIGINT NOT NULL,
  KEY notice_people_due (due_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- Sign-on.

CREATE TABLE IF NOT EXISTS identities (
  id         CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id    CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  issuer     VARBINARY(1024) NOT NULL,
  subject    VARBINARY(1024) NOT NULL,
  created_at BIGINT NOT NULL,
  KEY identities_user (user_id),
  CONSTRAINT identities_users FOREIGN KEY (user_id) REFERENCES users (id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS identity_groups (
  user_id  CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  group_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  PRIMARY KEY (user_id, group_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS folder_sums (
  folder_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  seq       BIGINT NOT NULL,
  files     BIGINT NOT NULL,
  folders   BIGINT NOT NULL,
  size      BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS key_conflicts (
  id          CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id     CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  method      VARBINARY(16) NOT NULL,
  route       VARBINARY(255) NOT NULL,
  `key`       VARBINARY(255) NOT NULL,
  fingerprint BINARY(32) NOT NULL,
  body        BLOB NOT NULL,
  times       BIGINT NOT NULL,
  first_at    BIGINT NOT NULL,
  last_at     BIGINT NOT NULL,
  UNIQUE KEY key_conflicts_request (user_id, method, route, `key`, fingerprint),
  KEY key_conflicts_user (user_id, id),
  KEY key_conflicts_age (last_at)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;
