-- Batches of documents as one zip. The list of what was asked for (export_wants) is frozen when the batch is made; what has arrived
-- (export_pins) holds a reference to its content until the batch has ended; what has not is a row of export_errors. A sealed batch has
-- one of the two for each entry, which its CHECK says. Who works on a batch has its epoch, and changes nothing without it.
-- Undo: drop the tables; the references of export_pins and what they are charged for are then mended by the next audit.
-- +goose Up
CREATE TABLE exports (
  id TEXT NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  user_id TEXT NOT NULL, -- who asked for it
  name TEXT NOT NULL, -- of the directory in the zip, and of the zip
  origin TEXT NOT NULL, -- manual | schedule | supplement
  request TEXT NOT NULL, -- what was asked for, JSON; shown to people
  slot TEXT NOT NULL, -- what there is only one of: schedule and month, or the id
  root_id TEXT NOT NULL, -- the batch that this is a revision of; its own id: the first
  revision INTEGER NOT NULL,
  parent_id TEXT, -- of a supplement: what it adds to
  priority INTEGER NOT NULL, -- higher goes first
  state TEXT NOT NULL, -- pending | running | sealed | aborted | failed | cancelled | expired
  total INTEGER NOT NULL, -- entries of export_wants
  collected INTEGER NOT NULL DEFAULT 0, -- rows of export_pins; kept when they have gone
  failed INTEGER NOT NULL DEFAULT 0, -- rows of export_errors
  bytes INTEGER NOT NULL DEFAULT 0, -- of the collected
  save_point INTEGER NOT NULL DEFAULT 0, -- entries up to this number are dealt with, or set aside
  epoch INTEGER NOT NULL DEFAULT 0, -- raised by each who takes the batch, and by who ends it
  worker TEXT NOT NULL, -- the instance that has it
  machine TEXT NOT NULL, -- the machine of that instance
  due_at INTEGER NOT NULL, -- pending, aborted: may be taken from then on; running: the end of the lease
  yield_at INTEGER NOT NULL DEFAULT 0, -- from then on its worker gives it back at the next save point
  avoid TEXT NOT NULL, -- a machine that shall not take it until avoid_until
  avoid_until INTEGER NOT NULL DEFAULT 0,
  tries INTEGER NOT NULL DEFAULT 0, -- how often it was aborted
  handovers INTEGER NOT NULL DEFAULT 0,
  claimed_at INTEGER NOT NULL DEFAULT 0,
  claimed_done INTEGER NOT NULL DEFAULT 0, -- collected and failed when it was taken: the rate is counted from there
  error TEXT NOT NULL, -- why it was aborted or has failed: a word
  size INTEGER NOT NULL DEFAULT 0, -- of the zip, bytes
  etag TEXT NOT NULL,
  list_epoch INTEGER NOT NULL DEFAULT 0, -- under which the rows of export_lists that count were written
  created_at INTEGER NOT NULL,
  begun_at INTEGER NOT NULL DEFAULT 0,
  ended_at INTEGER NOT NULL DEFAULT 0, -- sealed, failed, cancelled
  expires_at INTEGER NOT NULL DEFAULT 0, -- of a sealed one
  released_at INTEGER NOT NULL DEFAULT 0, -- of one that has ended: when its references were all given back
  CONSTRAINT exports_dealt CHECK (collected + failed <= total),
  CONSTRAINT exports_complete CHECK (state <> 'sealed' OR collected + failed = total)
);
CREATE UNIQUE INDEX exports_slot ON exports (slot);
CREATE UNIQUE INDEX exports_revision ON exports (root_id, revision);
CREATE INDEX exports_due ON exports (state, due_at);
CREATE INDEX exports_account ON exports (account_id, id);
CREATE INDEX exports_ended ON exports (released_at, state);

CREATE TABLE export_wants (
  export_id TEXT NOT NULL,
  n INTEGER NOT NULL, -- from 1, the order of the zip
  doc TEXT NOT NULL, -- the id that the asker gave; empty: none
  node_id TEXT, -- a file of the drive
  url TEXT NOT NULL, -- or a document elsewhere
  path TEXT NOT NULL, -- where it was, for people
  name TEXT NOT NULL, -- where it shall lie in the zip, as it was given
  mtime INTEGER NOT NULL DEFAULT 0, -- 0: that of the content
  from_id TEXT, -- a supplement: taken over from that batch's entry from_n
  from_n INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (export_id, n)
) WITHOUT ROWID;

CREATE TABLE export_pins (
  export_id TEXT NOT NULL,
  n INTEGER NOT NULL,
  account_id TEXT NOT NULL,
  blob_id TEXT NOT NULL, -- one reference
  size INTEGER NOT NULL,
  crc32 INTEGER NOT NULL,
  mtime INTEGER NOT NULL,
  charged INTEGER NOT NULL, -- bytes in the finished of the account's ledger: what was fetched is
  PRIMARY KEY (export_id, n)
) WITHOUT ROWID;
CREATE INDEX export_pins_blob ON export_pins (blob_id);
CREATE INDEX export_pins_account ON export_pins (account_id, charged);

CREATE TABLE export_errors (
  export_id TEXT NOT NULL,
  n INTEGER NOT NULL,
  doc TEXT NOT NULL,
  path TEXT NOT NULL,
  reason TEXT NOT NULL, -- a word
  detail TEXT NOT NULL, -- for people
  at INTEGER NOT NULL,
  PRIMARY KEY (export_id, n)
) WITHOUT ROWID;

CREATE TABLE export_lists (
  export_id TEXT NOT NULL,
  epoch INTEGER NOT NULL, -- of the worker that wrote it
  n INTEGER NOT NULL, -- pieces in order
  body BLOB NOT NULL, -- of the list that the zip's bytes follow from
  PRIMARY KEY (export_id, epoch, n)
);

CREATE TABLE export_machines (
  machine TEXT NOT NULL PRIMARY KEY, -- the row that is locked to count what a machine does
  seen_at INTEGER NOT NULL
);

CREATE TABLE export_schedules (
  id TEXT NOT NULL PRIMARY KEY,
  account_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  node_id TEXT NOT NULL, -- the folder
  name TEXT NOT NULL,
  filter TEXT NOT NULL, -- JSON
  zone TEXT NOT NULL, -- IANA name
  priority INTEGER NOT NULL,
  month INTEGER NOT NULL, -- the next one to be exported: year times 12 plus month from 0
  due_at INTEGER NOT NULL, -- when
  created_at INTEGER NOT NULL
);
CREATE INDEX export_schedules_due ON export_schedules (due_at);
CREATE INDEX export_schedules_account ON export_schedules (account_id, id);

CREATE TABLE export_jobs (
  id TEXT NOT NULL PRIMARY KEY,
  export_id TEXT NOT NULL,
  account_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  folder_id TEXT NOT NULL, -- where the zip shall lie as a file
  name TEXT NOT NULL,
  state TEXT NOT NULL, -- pending | running | done | failed
  epoch INTEGER NOT NULL DEFAULT 0,
  worker TEXT NOT NULL,
  machine TEXT NOT NULL,
  due_at INTEGER NOT NULL,
  tries INTEGER NOT NULL DEFAULT 0,
  upload_id TEXT, -- the upload that it is written through
  sent INTEGER NOT NULL DEFAULT 0, -- bytes, for people
  node_id TEXT, -- of a done one
  error TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX export_jobs_due ON export_jobs (state, due_at);
CREATE INDEX export_jobs_export ON export_jobs (export_id);
CREATE INDEX export_jobs_account ON export_jobs (account_id);

-- +goose Down
DROP TABLE export_jobs;
DROP TABLE export_schedules;
DROP TABLE export_machines;
DROP TABLE export_lists;
DROP TABLE export_errors;
DROP TABLE export_pins;
DROP TABLE export_wants;
DROP TABLE exports;
