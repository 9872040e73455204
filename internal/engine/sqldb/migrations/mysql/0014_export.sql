-- Batches of documents as one zip. The list of what was asked for (export_wants) is frozen when the batch is made; what has arrived
-- (export_pins) holds a reference to its content until the batch has ended; what has not is a row of export_errors. A sealed batch has
-- one of the two for each entry, which its CHECK says. Who works on a batch has its epoch, and changes nothing without it.
-- Undo: drop the tables; the references of export_pins and what they are charged for are then mended by the next audit.
-- +goose NO TRANSACTION
-- +goose Up
CREATE TABLE IF NOT EXISTS exports (
  id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- who asked for it
  name VARBINARY(255) NOT NULL, -- of the directory in the zip, and of the zip
  origin VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- manual | schedule | supplement
  request LONGTEXT NOT NULL, -- what was asked for, JSON; shown to people
  slot VARBINARY(128) NOT NULL, -- what there is only one of: schedule and month, or the id
  root_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the batch that this is a revision of; its own id: the first
  revision BIGINT NOT NULL,
  parent_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- of a supplement: what it adds to
  priority BIGINT NOT NULL, -- higher goes first
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- pending | running | sealed | aborted | failed | cancelled | expired
  total BIGINT NOT NULL, -- entries of export_wants
  collected BIGINT NOT NULL DEFAULT 0, -- rows of export_pins; kept when they have gone
  failed BIGINT NOT NULL DEFAULT 0, -- rows of export_errors
  bytes BIGINT NOT NULL DEFAULT 0, -- of the collected
  save_point BIGINT NOT NULL DEFAULT 0, -- entries up to this number are dealt with, or set aside
  epoch BIGINT NOT NULL DEFAULT 0, -- raised by each who takes the batch, and by who ends it
  worker VARBINARY(255) NOT NULL, -- the instance that has it
  machine VARBINARY(255) NOT NULL, -- the machine of that instance
  due_at BIGINT NOT NULL, -- pending, aborted: may be taken from then on; running: the end of the lease
  yield_at BIGINT NOT NULL DEFAULT 0, -- from then on its worker gives it back at the next save point
  avoid VARBINARY(255) NOT NULL, -- a machine that shall not take it until avoid_until
  avoid_until BIGINT NOT NULL DEFAULT 0,
  tries BIGINT NOT NULL DEFAULT 0, -- how often it was aborted
  handovers BIGINT NOT NULL DEFAULT 0,
  claimed_at BIGINT NOT NULL DEFAULT 0,
  claimed_done BIGINT NOT NULL DEFAULT 0, -- collected and failed when it was taken: the rate is counted from there
  error VARBINARY(64) NOT NULL, -- why it was aborted or has failed: a word
  size BIGINT NOT NULL DEFAULT 0, -- of the zip, bytes
  etag VARBINARY(128) NOT NULL,
  list_epoch BIGINT NOT NULL DEFAULT 0, -- under which the rows of export_lists that count were written
  created_at BIGINT NOT NULL,
  begun_at BIGINT NOT NULL DEFAULT 0,
  ended_at BIGINT NOT NULL DEFAULT 0, -- sealed, failed, cancelled
  expires_at BIGINT NOT NULL DEFAULT 0, -- of a sealed one
  released_at BIGINT NOT NULL DEFAULT 0, -- of one that has ended: when its references were all given back
  CONSTRAINT exports_dealt CHECK (collected + failed <= total),
  CONSTRAINT exports_complete CHECK (state <> 'sealed' OR collected + failed = total),
  UNIQUE KEY exports_slot (slot),
  UNIQUE KEY exports_revision (root_id, revision),
  KEY exports_due (state, due_at),
  KEY exports_account (account_id, id),
  KEY exports_ended (released_at, state)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_wants (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n BIGINT NOT NULL, -- from 1, the order of the zip
  doc VARBINARY(255) NOT NULL, -- the id that the asker gave; empty: none
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- a file of the drive
  url VARBINARY(4096) NOT NULL, -- or a document elsewhere
  path VARBINARY(4096) NOT NULL, -- where it was, for people
  name VARBINARY(4096) NOT NULL, -- where it shall lie in the zip, as it was given
  mtime BIGINT NOT NULL DEFAULT 0, -- 0: that of the content
  from_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- a supplement: taken over from that batch's entry from_n
  from_n BIGINT NOT NULL DEFAULT 0,
  PRIMARY KEY (export_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_pins (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n BIGINT NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  blob_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- one reference
  size BIGINT NOT NULL,
  crc32 BIGINT NOT NULL,
  mtime BIGINT NOT NULL,
  charged BIGINT NOT NULL, -- bytes in the finished of the account's ledger: what was fetched is
  PRIMARY KEY (export_id, n),
  KEY export_pins_blob (blob_id),
  KEY export_pins_account (account_id, charged)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_errors (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  n BIGINT NOT NULL,
  doc VARBINARY(255) NOT NULL,
  path VARBINARY(4096) NOT NULL,
  reason VARBINARY(64) NOT NULL, -- a word
  detail VARBINARY(255) NOT NULL, -- for people
  at BIGINT NOT NULL,
  PRIMARY KEY (export_id, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_lists (
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  epoch BIGINT NOT NULL, -- of the worker that wrote it
  n BIGINT NOT NULL, -- pieces in order
  body LONGBLOB NOT NULL, -- of the list that the zip's bytes follow from
  PRIMARY KEY (export_id, epoch, n)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_machines (
  machine VARBINARY(255) NOT NULL PRIMARY KEY, -- the row that is locked to count what a machine does
  seen_at BIGINT NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_schedules (
  id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the folder
  name VARBINARY(255) NOT NULL,
  filter LONGTEXT NOT NULL, -- JSON
  zone VARBINARY(64) NOT NULL, -- IANA name
  priority BIGINT NOT NULL,
  month BIGINT NOT NULL, -- the next one to be exported: year times 12 plus month from 0
  due_at BIGINT NOT NULL, -- when
  created_at BIGINT NOT NULL,
  KEY export_schedules_due (due_at),
  KEY export_schedules_account (account_id, id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

CREATE TABLE IF NOT EXISTS export_jobs (
  id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  export_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  account_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  user_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  folder_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- where the zip shall lie as a file
  name VARBINARY(255) NOT NULL,
  state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- pending | running | done | failed
  epoch BIGINT NOT NULL DEFAULT 0,
  worker VARBINARY(255) NOT NULL,
  machine VARBINARY(255) NOT NULL,
  due_at BIGINT NOT NULL,
  tries BIGINT NOT NULL DEFAULT 0,
  upload_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- the upload that it is written through
  sent BIGINT NOT NULL DEFAULT 0, -- bytes, for people
  node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- of a done one
  error VARBINARY(64) NOT NULL,
  created_at BIGINT NOT NULL,
  ended_at BIGINT NOT NULL DEFAULT 0,
  KEY export_jobs_due (state, due_at),
  KEY export_jobs_export (export_id),
  KEY export_jobs_account (account_id)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;

-- +goose Down
DROP TABLE IF EXISTS export_jobs;
DROP TABLE IF EXISTS export_schedules;
DROP TABLE IF EXISTS export_machines;
DROP TABLE IF EXISTS export_lists;
DROP TABLE IF EXISTS export_errors;
DROP TABLE IF EXISTS export_pins;
DROP TABLE IF EXISTS export_wants;
DROP TABLE IF EXISTS exports;
