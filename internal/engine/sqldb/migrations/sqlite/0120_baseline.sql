-- The schema of release 0.1.0. It replaces the migrations of the development versions, 1 to 119. migrate.go stamps a
-- database of version 119, whose schema is the same, and refuses older ones.
-- All columns *_at are Unix times in milliseconds. The meaning of tables and columns is described here, for both dialects.
-- Undo: drop the database.
-- +goose Up

-- Installation.

-- Named values of the installation: its id, the generation (raised at each start), secrets for signing.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

-- People and accounts.

-- An account owns a ledger and a file tree. It belongs to a user or is a space.
CREATE TABLE accounts (
  id         TEXT    NOT NULL PRIMARY KEY,
  created_at INTEGER NOT NULL -- Unix ms, as all *_at columns
) WITHOUT ROWID;

-- People who log in. Passwords are PHC strings (argon2id).
CREATE TABLE users (
  id            TEXT    NOT NULL PRIMARY KEY,
  account_id    TEXT    NOT NULL REFERENCES accounts (id),
  name          TEXT    NOT NULL,
  slot          TEXT    NOT NULL UNIQUE, -- the folded name; "/<id>" once deleted, so that the name is free again
  password      TEXT    NOT NULL,
  admin         INTEGER NOT NULL,
  state         TEXT    NOT NULL, -- active | disabled | deleted
  link_epoch    INTEGER NOT NULL DEFAULT 0, -- raised by a password change, which voids signed links
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  deleted_at    INTEGER NOT NULL DEFAULT 0,
  must_change   INTEGER NOT NULL DEFAULT 0, -- 1: a login may only set a new password
  last_login_at INTEGER NOT NULL DEFAULT 0 -- 0: never
) WITHOUT ROWID;
CREATE INDEX users_account ON users (account_id);
CREATE INDEX users_deleted ON users (deleted_at) WHERE deleted_at > 0;
CREATE INDEX users_admin ON users (state) WHERE admin = 1;

-- Logins and API tokens. Of the secret only the SHA-256 is stored.
CREATE TABLE sessions (
  id         TEXT    NOT NULL PRIMARY KEY,
  user_id    TEXT    NOT NULL REFERENCES users (id),
  kind       TEXT    NOT NULL, -- login | token
  name       TEXT    NOT NULL,
  secret     BLOB    NOT NULL UNIQUE, -- SHA-256 of the bearer secret
  scopes     INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL,
  expires_at INTEGER NOT NULL, -- 0: never (tokens)
  heads      INTEGER NOT NULL DEFAULT 1, -- protocols that accept it, a bit each (drive.Heads)
  ends_at    INTEGER NOT NULL DEFAULT 0 -- absolute end of a sign-on by an identity provider; 0: none
) WITHOUT ROWID;
CREATE INDEX sessions_user ON sessions (user_id, kind);
CREATE INDEX sessions_expiry ON sessions (expires_at) WHERE expires_at > 0;

-- Quota.

-- The only counter of usage (Q1-Q4). Each change is one conditional UPDATE in the transaction of the state change
-- that it belongs to.
CREATE TABLE ledgers (
  account_id TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
  total      INTEGER, -- NULL: unlimited
  finished   INTEGER NOT NULL DEFAULT 0 CHECK (finished >= 0),
  unfinished INTEGER NOT NULL DEFAULT 0 CHECK (unfinished >= 0),
  reserved   INTEGER NOT NULL DEFAULT 0 CHECK (reserved >= 0),
  version    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Content.

-- Content by digest. A blob's file never changes (B1). Blobs are shared by reference count; with the last reference
-- the row is deleted at once and the file 15 minutes later (B2).
CREATE TABLE blobs (
  id          TEXT    NOT NULL PRIMARY KEY,
  file        TEXT    NOT NULL UNIQUE, -- name in the blob store
  algo        TEXT    NOT NULL, -- blake3
  digest      TEXT    NOT NULL, -- lower-case hex
  size        INTEGER NOT NULL,
  part_size   INTEGER NOT NULL,
  crc32       INTEGER NOT NULL, -- of the whole content, IEEE
  refs        INTEGER NOT NULL CHECK (refs > 0),
  created_at  INTEGER NOT NULL,
  scrubbed_at INTEGER NOT NULL,
  damaged_at  INTEGER NOT NULL DEFAULT 0, -- when the content was found missing or changed
  parts       BLOB    NOT NULL -- 36 bytes a part: chaining value, CRC-32 little-endian
);
CREATE UNIQUE INDEX blobs_digest ON blobs (algo, digest, size);
CREATE INDEX blobs_scrub ON blobs (scrubbed_at);

-- Further digests of a blob.
CREATE TABLE aliases (
  algo    TEXT NOT NULL, -- sha256 | md5 | sm3
  digest  TEXT NOT NULL,
  blob_id TEXT NOT NULL REFERENCES blobs (id) ON DELETE CASCADE,
  PRIMARY KEY (algo, digest, blob_id)
) WITHOUT ROWID;
CREATE INDEX aliases_blob ON aliases (blob_id);

-- Files of the blob store without a blob, until they are deleted (B3).
CREATE TABLE released (
  file        TEXT    NOT NULL PRIMARY KEY,
  size        INTEGER NOT NULL,
  released_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX released_age ON released (released_at);

-- Files and folders.

-- One tree per account.
CREATE TABLE trees (
  account_id TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
  root_id    TEXT    NOT NULL,
  seq        INTEGER NOT NULL, -- the last change of the tree
  forgotten  INTEGER NOT NULL DEFAULT 0, -- tombstones up to this seq were deleted: an older feed is incomplete
  node_count INTEGER NOT NULL, -- all nodes but the root, trash included
  closed     INTEGER NOT NULL DEFAULT 0, -- 1: nothing may be added; the drive of a user who left
  changed_on INTEGER NOT NULL DEFAULT 0, -- day in UTC, in days since 1970
  changed    INTEGER NOT NULL DEFAULT 0 -- changes of nodes on that day, which are limited
) WITHOUT ROWID;

-- A node keeps its id for life. A trashed node keeps its parent: only the top node of a trashed subtree has
-- trashed_at, and its slot is free for others. A node with an operation_id is being copied in or purged. nodes_search
-- holds nothing but names, so that a search scans few pages. nodes_mtime lists a page of children by time.
CREATE TABLE nodes (
  id           TEXT    NOT NULL PRIMARY KEY,
  account_id   TEXT    NOT NULL REFERENCES accounts (id),
  parent_id    TEXT    REFERENCES nodes (id), -- NULL: the root
  name         TEXT    NOT NULL,
  name_fold    TEXT    NOT NULL,
  slot         TEXT    NOT NULL, -- the name while live, "/<id>" while trashed: one live name per folder
  type         TEXT    NOT NULL, -- file | folder
  version_id   TEXT, -- the current version of a file
  mtime        INTEGER NOT NULL,
  rev          INTEGER NOT NULL, -- +1 at every change of the node
  seq          INTEGER NOT NULL, -- trees.seq of its last change
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  trashed_at   INTEGER NOT NULL DEFAULT 0,
  operation_id TEXT -- the operation that owns a trashed node: not in the trash, cannot be restored
) WITHOUT ROWID;
CREATE UNIQUE INDEX nodes_slot ON nodes (parent_id, slot);
CREATE INDEX nodes_seq ON nodes (account_id, seq);
CREATE INDEX nodes_trash ON nodes (account_id, trashed_at) WHERE trashed_at > 0;
CREATE INDEX nodes_search ON nodes (account_id, name_fold);
CREATE INDEX nodes_mtime ON nodes (parent_id, type, trashed_at, mtime, slot);

-- The versions of files.
CREATE TABLE versions (
  id         TEXT    NOT NULL PRIMARY KEY,
  node_id    TEXT    NOT NULL REFERENCES nodes (id),
  account_id TEXT    NOT NULL,
  blob_id    TEXT    NOT NULL REFERENCES blobs (id),
  size       INTEGER NOT NULL,
  mtime      INTEGER NOT NULL,
  mime       TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL
) WITHOUT ROWID;
CREATE INDEX versions_node ON versions (node_id, id);
CREATE INDEX versions_blob ON versions (blob_id);
CREATE INDEX versions_account ON versions (account_id, size);

-- Nodes that were deleted permanently, for the change feed.
CREATE TABLE tombstones (
  account_id TEXT    NOT NULL,
  seq        INTEGER NOT NULL,
  node_id    TEXT    NOT NULL,
  deleted_at INTEGER NOT NULL,
  PRIMARY KEY (account_id, seq)
) WITHOUT ROWID;
CREATE INDEX tombstones_node ON tombstones (node_id);

-- Long-running work on a subtree: copies and purges.
CREATE TABLE operations (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  kind       TEXT    NOT NULL,
  args       TEXT    NOT NULL, -- JSON: parameters and progress
  state      TEXT    NOT NULL, -- running | done | failed
  done       INTEGER NOT NULL DEFAULT 0, -- nodes processed
  total      INTEGER NOT NULL DEFAULT 0, -- nodes found so far
  error      TEXT    NOT NULL DEFAULT '', -- problem code if it failed
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX operations_state ON operations (state, id);
CREATE INDEX operations_ended ON operations (state, updated_at) WHERE state IN ('done', 'failed');
CREATE INDEX operations_account ON operations (account_id);

-- Uploads.

-- One row per upload, changed only by compare-and-set on (id, state, gen).
CREATE TABLE uploads (
  id          TEXT    NOT NULL PRIMARY KEY,
  account_id  TEXT    NOT NULL REFERENCES accounts (id),
  user_id     TEXT    NOT NULL,
  parent_id   TEXT    NOT NULL,
  name        TEXT    NOT NULL,
  conflict    TEXT    NOT NULL,
  base        TEXT, -- conflict replace: the current version at begin; NULL: the name was free
  size        INTEGER, -- NULL: not known yet
  part_size   INTEGER NOT NULL,
  mtime       INTEGER NOT NULL,
  mime        TEXT    NOT NULL,
  fingerprint TEXT    NOT NULL,
  digests     TEXT    NOT NULL, -- declared, JSON {algo: hex}
  state       TEXT    NOT NULL, -- active | parked | sealing | reclaiming | done | gone
  gen         INTEGER NOT NULL, -- fencing token: +1 at every change of state
  reserved    INTEGER NOT NULL, -- its share of ledgers.reserved
  held        INTEGER NOT NULL, -- its share of ledgers.unfinished
  received    INTEGER NOT NULL DEFAULT 0, -- bytes received when it was last parked
  resumes     INTEGER NOT NULL DEFAULT 0, -- consecutive resumes without a new part
  challenge   TEXT    NOT NULL DEFAULT '', -- the open possession challenge, JSON
  node_id     TEXT,
  reason      TEXT    NOT NULL DEFAULT '', -- why it ended without a file
  created_at  INTEGER NOT NULL,
  active_at   INTEGER NOT NULL, -- last activity known to the database
  ended_at    INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX uploads_open ON uploads (account_id, state, parent_id, name);
CREATE INDEX uploads_state ON uploads (state, id);
CREATE INDEX uploads_ended ON uploads (state, ended_at) WHERE ended_at > 0;

-- A user who failed a possession challenge for a digest gets no challenge for it for a day.
CREATE TABLE refusals (
  user_id TEXT    NOT NULL,
  digest  TEXT    NOT NULL, -- algo:hex
  until   INTEGER NOT NULL,
  bytes   INTEGER NOT NULL DEFAULT 0, -- size of the content, which counts against a daily limit
  PRIMARY KEY (user_id, digest)
) WITHOUT ROWID;
CREATE INDEX refusals_until ON refusals (until);

-- Idempotency.

-- Idempotency keys of creating requests: key, effect and response are stored in one transaction.
CREATE TABLE idempotency (
  user_id     TEXT    NOT NULL,
  method      TEXT    NOT NULL,
  route       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL, -- SHA-256 of path and body
  status      INTEGER NOT NULL,
  body        BLOB    NOT NULL,
  created_at  INTEGER NOT NULL,
  PRIMARY KEY (user_id, method, route, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_age ON idempotency (created_at);

-- Event stream.

-- Records of events, written by the transaction of the change that they report. On MySQL a relay may send them to a
-- broker.
CREATE TABLE outbox (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- the offset; one writer, so offsets become visible in order
  event_id   TEXT    NOT NULL UNIQUE, -- id of the event: an event is published once
  topic      TEXT    NOT NULL,
  key        TEXT    NOT NULL, -- ordering key: the account, or ''
  event      TEXT    NOT NULL, -- CloudEvents 1.0 JSON
  created_at INTEGER NOT NULL,
  sent_at    INTEGER -- NULL: not sent to a broker
);
CREATE INDEX outbox_topic ON outbox (topic);

-- The position of each consumer.
CREATE TABLE cursors (
  consumer TEXT    NOT NULL,
  topic    TEXT    NOT NULL,
  position INTEGER NOT NULL, -- the last processed offset
  PRIMARY KEY (consumer, topic)
) WITHOUT ROWID;
CREATE INDEX cursors_behind ON cursors (topic, position);

-- Records whose handler failed, until the retry delay has passed.
CREATE TABLE deliveries (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer   TEXT    NOT NULL,
  topic      TEXT    NOT NULL,
  key        TEXT    NOT NULL,
  event      TEXT    NOT NULL,
  failures   INTEGER NOT NULL, -- 0 after a replay
  kind       TEXT    NOT NULL, -- drive.Kind code of the last failure
  error      TEXT    NOT NULL,
  not_before INTEGER NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (consumer, topic, not_before);

-- Records that failed too often. Letters from a broker are stored once per consumer and event.
CREATE TABLE dead_letters (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  consumer TEXT    NOT NULL, -- the consumer that failed and that receives a replay
  topic    TEXT    NOT NULL,
  key      TEXT    NOT NULL,
  event    TEXT    NOT NULL,
  failures INTEGER NOT NULL,
  kind     TEXT    NOT NULL,
  error    TEXT    NOT NULL,
  died_at  INTEGER NOT NULL,
  event_id TEXT -- set if the letter came from a broker
);
CREATE UNIQUE INDEX dead_letters_event ON dead_letters (consumer, event_id);

-- Audit.

-- Defects found by the auditor, and whether it repaired them. A defect that is found again keeps its row.
CREATE TABLE findings (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  found_at  INTEGER NOT NULL,
  seen_at   INTEGER NOT NULL, -- found last
  invariant TEXT    NOT NULL,
  subject   TEXT    NOT NULL,
  expected  TEXT    NOT NULL,
  found     TEXT    NOT NULL,
  nodes     TEXT    NOT NULL, -- JSON list of affected nodes; '': not applicable
  repaired  INTEGER NOT NULL
);
CREATE INDEX findings_subject ON findings (subject, invariant);
CREATE INDEX findings_seen ON findings (seen_at);

-- Instances.

-- The processes that serve the installation. A row is one start and its generation never recurs. An instance is alive
-- while its heartbeat is recent and ended_at is NULL.
CREATE TABLE instances (
  generation INTEGER NOT NULL PRIMARY KEY, -- meta.generation of this start
  id         TEXT    NOT NULL, -- id of the data directory: a new start ends the previous one
  host       TEXT    NOT NULL,
  roles      TEXT    NOT NULL,
  version    TEXT    NOT NULL,
  joined_at  INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL, -- the last heartbeat, by the database's clock
  ended_at   INTEGER -- it left or was declared dead, and may not write
);

-- Tasks that one instance at a time performs.
CREATE TABLE leases (
  name       TEXT    NOT NULL PRIMARY KEY,
  generation INTEGER NOT NULL, -- the holder; 0: none
  epoch      INTEGER NOT NULL, -- raised each time the lease is acquired
  taken_at   INTEGER NOT NULL
);

-- How far each partition of a broker's dead-letter topic has been read.
CREATE TABLE drains (
  log      TEXT    NOT NULL, -- topic and topic id
  shard    INTEGER NOT NULL, -- partition
  position INTEGER NOT NULL, -- the last offset read
  PRIMARY KEY (log, shard)
) WITHOUT ROWID;

-- Share links and collect links.

-- A share link lets anyone list and download a node and what is below it. The token is stored as a hash; share_texts
-- has what the owner can see again.
CREATE TABLE shares (
  id            TEXT    NOT NULL PRIMARY KEY,
  account_id    TEXT    NOT NULL REFERENCES accounts (id),
  user_id       TEXT    NOT NULL, -- the creator: the share is closed while they cannot log in
  node_id       TEXT    NOT NULL,
  token         TEXT    NOT NULL UNIQUE, -- hash
  code          TEXT    NOT NULL, -- whether there is an extraction code; '': none
  epoch         INTEGER NOT NULL, -- raised when the code changes, which voids earlier accesses
  expires_at    INTEGER NOT NULL, -- 0: never
  max_downloads INTEGER, -- NULL: unlimited
  downloads     INTEGER NOT NULL DEFAULT 0,
  views         INTEGER NOT NULL DEFAULT 0,
  created_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX shares_account ON shares (account_id, id);
CREATE INDEX shares_node ON shares (node_id);

-- Downloads counted against max_downloads, per visitor and file, so that further ranges of a file are not counted
-- again.
CREATE TABLE share_downloads (
  visit_id TEXT    NOT NULL,
  node_id  TEXT    NOT NULL,
  share_id TEXT    NOT NULL,
  begun_at INTEGER NOT NULL,
  ahead    INTEGER NOT NULL DEFAULT 0, -- 1: the first byte has not been requested yet, which is then free
  PRIMARY KEY (visit_id, node_id)
) WITHOUT ROWID;
CREATE INDEX share_downloads_age ON share_downloads (begun_at);

-- Attempts to enter a code, per share and address and per share.
CREATE TABLE share_attempts (
  subject    TEXT    NOT NULL PRIMARY KEY,
  tries      INTEGER NOT NULL, -- since started_at
  started_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX share_attempts_age ON share_attempts (started_at);

-- A collect link lets anyone send files into one folder. The token is stored as a hash.
CREATE TABLE collects (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL REFERENCES accounts (id),
  user_id    TEXT    NOT NULL,
  folder_id  TEXT    NOT NULL,
  token      TEXT    NOT NULL UNIQUE, -- hash
  title      TEXT    NOT NULL,
  message    TEXT    NOT NULL,
  expires_at INTEGER NOT NULL, -- 0: never
  max_bytes  INTEGER, -- of all files; NULL: limited by the quota only
  max_file   INTEGER, -- of one file; NULL: unlimited
  files      INTEGER NOT NULL DEFAULT 0, -- completed files
  received   INTEGER NOT NULL DEFAULT 0, -- bytes of completed files
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX collects_account ON collects (account_id, id);

-- Files received by collect links. An open one counts with its declared size until its upload ends.
CREATE TABLE collected (
  upload_id  TEXT    NOT NULL PRIMARY KEY,
  collect_id TEXT    NOT NULL,
  account_id TEXT    NOT NULL,
  sender_id  TEXT    NOT NULL, -- the visitor who opened the link
  sender     TEXT    NOT NULL, -- name given by the visitor
  name       TEXT    NOT NULL, -- as sent
  size       INTEGER NOT NULL,
  digests    TEXT    NOT NULL, -- declared, JSON {algo: hex}: verified, never used to look up content
  state      TEXT    NOT NULL, -- open | done
  node_id    TEXT, -- set when done
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX collected_link ON collected (collect_id, state, upload_id);
CREATE INDEX collected_sender ON collected (sender_id, upload_id);
CREATE INDEX collected_account ON collected (account_id);
CREATE INDEX collected_open ON collected (collect_id) WHERE state = 'open';

-- Preferences.

-- Settings of the web pages, such as language and theme. The server does not interpret them.
CREATE TABLE preferences (
  user_id    TEXT    NOT NULL PRIMARY KEY REFERENCES users (id),
  value      TEXT    NOT NULL, -- a JSON object
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Exports.

-- Batches of documents as one zip. The list (export_wants) is frozen when the batch is created. Each entry ends as a
-- row of export_pins, which holds a reference to the content, or of export_errors; the CHECKs prove that none is
-- missing. A worker changes a batch only under its epoch.
CREATE TABLE exports (
  id           TEXT    NOT NULL PRIMARY KEY,
  account_id   TEXT    NOT NULL,
  user_id      TEXT    NOT NULL, -- the requester
  name         TEXT    NOT NULL, -- of the zip and of the directory in it
  origin       TEXT    NOT NULL, -- manual | schedule | supplement
  request      TEXT    NOT NULL, -- JSON of the request, shown to users
  slot         TEXT    NOT NULL, -- unique: schedule and month, or the id
  root_id      TEXT    NOT NULL, -- the first revision of this batch; its own id if it is the first
  revision     INTEGER NOT NULL,
  parent_id    TEXT, -- supplement: the batch that it adds to
  priority     INTEGER NOT NULL, -- higher goes first
  state        TEXT    NOT NULL, -- pending | running | sealed | aborted | failed | cancelled | expired
  total        INTEGER NOT NULL, -- entries in export_wants
  collected    INTEGER NOT NULL DEFAULT 0, -- rows in export_pins; keeps its value when they are deleted
  failed       INTEGER NOT NULL DEFAULT 0, -- rows in export_errors
  bytes        INTEGER NOT NULL DEFAULT 0, -- of the collected entries
  save_point   INTEGER NOT NULL DEFAULT 0, -- entries up to this number are processed or deferred
  epoch        INTEGER NOT NULL DEFAULT 0, -- fencing token: raised by each claim and by the end
  worker       TEXT    NOT NULL, -- the instance that works on it
  machine      TEXT    NOT NULL, -- that instance's machine
  due_at       INTEGER NOT NULL, -- pending, aborted: earliest claim; running: end of the lease
  yield_at     INTEGER NOT NULL DEFAULT 0, -- then the worker gives it up at the next save point
  avoid        TEXT    NOT NULL, -- a machine that may not claim it before avoid_until
  avoid_until  INTEGER NOT NULL DEFAULT 0,
  tries        INTEGER NOT NULL DEFAULT 0, -- number of aborts
  handovers    INTEGER NOT NULL DEFAULT 0,
  claimed_at   INTEGER NOT NULL DEFAULT 0,
  claimed_done INTEGER NOT NULL DEFAULT 0, -- collected and failed at the claim, to compute the rate
  error        TEXT    NOT NULL, -- code: why it was aborted or failed
  size         INTEGER NOT NULL DEFAULT 0, -- bytes of the zip
  etag         TEXT    NOT NULL,
  list_epoch   INTEGER NOT NULL DEFAULT 0, -- the epoch of the valid rows of export_lists
  created_at   INTEGER NOT NULL,
  begun_at     INTEGER NOT NULL DEFAULT 0,
  ended_at     INTEGER NOT NULL DEFAULT 0, -- sealed, failed or cancelled
  expires_at   INTEGER NOT NULL DEFAULT 0, -- if sealed
  released_at  INTEGER NOT NULL DEFAULT 0, -- when all references of an ended batch were released
  late_at      INTEGER NOT NULL DEFAULT 0, -- when the owner was notified that it takes longer than expected; 0: not
  CONSTRAINT exports_dealt CHECK (collected + failed <= total),
  CONSTRAINT exports_complete CHECK (state <> 'sealed' OR collected + failed = total)
);
CREATE UNIQUE INDEX exports_slot ON exports (slot);
CREATE UNIQUE INDEX exports_revision ON exports (root_id, revision);
CREATE INDEX exports_due ON exports (state, due_at);
CREATE INDEX exports_account ON exports (account_id, id);
CREATE INDEX exports_ended ON exports (released_at, state, expires_at);
CREATE INDEX exports_begun ON exports (state, begun_at);

-- The entries of a batch.
CREATE TABLE export_wants (
  export_id TEXT    NOT NULL,
  n         INTEGER NOT NULL, -- from 1, in the order of the zip
  doc       TEXT    NOT NULL, -- id given by the requester; '': none
  node_id   TEXT, -- a file of the drive
  url       TEXT    NOT NULL, -- or an external document
  path      TEXT    NOT NULL, -- original path, for users
  name      TEXT    NOT NULL, -- requested name in the zip
  mtime     INTEGER NOT NULL DEFAULT 0, -- 0: that of the content
  from_id   TEXT, -- supplement: taken from entry from_n of that batch
  from_n    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (export_id, n)
) WITHOUT ROWID;

-- Collected entries. Each holds a reference to its content until the batch has ended.
CREATE TABLE export_pins (
  export_id  TEXT    NOT NULL,
  n          INTEGER NOT NULL,
  account_id TEXT    NOT NULL,
  blob_id    TEXT    NOT NULL, -- holds one reference
  size       INTEGER NOT NULL,
  crc32      INTEGER NOT NULL,
  mtime      INTEGER NOT NULL,
  charged    INTEGER NOT NULL, -- bytes charged to the account's finished: fetched documents
  PRIMARY KEY (export_id, n)
) WITHOUT ROWID;
CREATE INDEX export_pins_blob ON export_pins (blob_id);
CREATE INDEX export_pins_account ON export_pins (account_id, charged);

-- Entries that could not be collected.
CREATE TABLE export_errors (
  export_id TEXT    NOT NULL,
  n         INTEGER NOT NULL,
  doc       TEXT    NOT NULL,
  path      TEXT    NOT NULL,
  reason    TEXT    NOT NULL, -- code
  detail    TEXT    NOT NULL, -- for users
  at        INTEGER NOT NULL,
  PRIMARY KEY (export_id, n)
) WITHOUT ROWID;

-- The list from which the bytes of a sealed zip are generated.
CREATE TABLE export_lists (
  export_id TEXT    NOT NULL,
  epoch     INTEGER NOT NULL, -- of the worker that wrote it
  n         INTEGER NOT NULL, -- order of the pieces
  body      BLOB    NOT NULL, -- a piece of the list
  PRIMARY KEY (export_id, epoch, n)
);

-- A row per machine, locked while its running batches are counted.
CREATE TABLE export_machines (
  machine TEXT    NOT NULL PRIMARY KEY,
  seen_at INTEGER NOT NULL
);

-- Monthly exports of a folder.
CREATE TABLE export_schedules (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  node_id    TEXT    NOT NULL, -- the folder
  name       TEXT    NOT NULL,
  filter     TEXT    NOT NULL, -- JSON
  zone       TEXT    NOT NULL, -- IANA name
  priority   INTEGER NOT NULL,
  month      INTEGER NOT NULL, -- the next month to export: year times 12 plus month from 0
  due_at     INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);
CREATE INDEX export_schedules_due ON export_schedules (due_at);
CREATE INDEX export_schedules_account ON export_schedules (account_id, id);

-- Copies of a zip into a folder of the drive.
CREATE TABLE export_jobs (
  id         TEXT    NOT NULL PRIMARY KEY,
  export_id  TEXT    NOT NULL,
  account_id TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  folder_id  TEXT    NOT NULL, -- destination
  name       TEXT    NOT NULL,
  state      TEXT    NOT NULL, -- pending | running | done | failed
  epoch      INTEGER NOT NULL DEFAULT 0,
  worker     TEXT    NOT NULL,
  machine    TEXT    NOT NULL,
  due_at     INTEGER NOT NULL,
  tries      INTEGER NOT NULL DEFAULT 0,
  upload_id  TEXT, -- the upload that writes it
  sent       INTEGER NOT NULL DEFAULT 0, -- bytes so far
  node_id    TEXT, -- set when done
  error      TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  ended_at   INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX export_jobs_due ON export_jobs (state, due_at);
CREATE INDEX export_jobs_export ON export_jobs (export_id);
CREATE INDEX export_jobs_account ON export_jobs (account_id);

-- Upload protocols.

-- State of tus and of the IETF draft for uploads that are filled by offset. Native uploads have no row.
CREATE TABLE upload_heads (
  upload_id TEXT    NOT NULL PRIMARY KEY REFERENCES uploads (id) ON DELETE CASCADE,
  kind      INTEGER NOT NULL, -- 0 whole | 1 partial | 2 final
  protocol  INTEGER NOT NULL, -- 0 native | 1 tus | 2 resumable uploads for HTTP
  metadata  TEXT    NOT NULL, -- as sent by the client
  partials  TEXT    NOT NULL, -- final: JSON [upload id, ...] in order
  final_id  TEXT -- partial: the final upload that joined it; NULL: none
) WITHOUT ROWID;

-- Partial uploads of a concatenation. Their bytes belong to the final upload and are deleted when it ends.
CREATE TABLE upload_joins (
  partial_id TEXT    NOT NULL PRIMARY KEY,
  final_id   TEXT    NOT NULL,
  n          INTEGER NOT NULL, -- position in the final upload
  begun_at   INTEGER NOT NULL, -- with part_size: identifies the staged bytes
  part_size  INTEGER NOT NULL,
  size       INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX upload_joins_final ON upload_joins (final_id, n);

-- Intake of bundles of documents.

-- Senders of bundles.
CREATE TABLE sources (
  account_id TEXT    NOT NULL,
  name       TEXT    NOT NULL, -- the folder below /intake
  rules      TEXT    NOT NULL, -- JSON: which documents are accepted
  updated_at INTEGER NOT NULL,
  plain      INTEGER NOT NULL DEFAULT 0, -- 1: files without a manifest are accepted
  PRIMARY KEY (account_id, name)
) WITHOUT ROWID;
CREATE INDEX sources_plain ON sources (plain, account_id, name);

-- A bundle is created by the transaction that makes its meta.json visible. A worker changes it only under its epoch.
-- The CHECKs prove that each declared document of an ended bundle is counted.
CREATE TABLE bundles (
  id           TEXT    NOT NULL PRIMARY KEY,
  account_id   TEXT    NOT NULL,
  source       TEXT    NOT NULL,
  sender_id    TEXT    NOT NULL, -- the sender's id: the name of its folder
  folder_id    TEXT    NOT NULL,
  meta_id      TEXT    NOT NULL, -- the node of meta.json; the folder itself if there is no manifest
  meta_version TEXT    NOT NULL, -- the version of meta.json that sealed it
  state        TEXT    NOT NULL, -- sealed | running | done | rejected
  reason       TEXT    NOT NULL, -- code: why it was rejected, or what it waits for
  detail       TEXT    NOT NULL, -- for users
  declared     INTEGER NOT NULL DEFAULT 0, -- documents in the manifest
  accepted     INTEGER NOT NULL DEFAULT 0,
  rejected     INTEGER NOT NULL DEFAULT 0,
  duplicates   INTEGER NOT NULL DEFAULT 0,
  conflicts    INTEGER NOT NULL DEFAULT 0,
  surplus      INTEGER NOT NULL DEFAULT 0, -- undeclared documents; none was accepted
  members      INTEGER NOT NULL DEFAULT 0,
  size         INTEGER NOT NULL DEFAULT 0, -- bytes of the members in the manifest
  checked      INTEGER NOT NULL DEFAULT 0, -- 1: the members match the manifest
  save_member  INTEGER NOT NULL DEFAULT 0, -- members up to this number are processed,
  save_index   INTEGER NOT NULL DEFAULT 0, -- and this many documents of the next one
  epoch        INTEGER NOT NULL DEFAULT 0, -- fencing token: raised by each claim and by the end
  worker       TEXT    NOT NULL, -- the instance that works on it
  due_at       INTEGER NOT NULL, -- sealed: earliest claim; running: end of the lease
  tries        INTEGER NOT NULL DEFAULT 0, -- claims without progress
  attempts     INTEGER NOT NULL DEFAULT 0, -- claims
  sealed_at    INTEGER NOT NULL,
  waits_until  INTEGER NOT NULL, -- deadline for missing members
  ended_at     INTEGER NOT NULL DEFAULT 0,
  CONSTRAINT bundles_dealt CHECK (accepted + rejected + duplicates + conflicts <= declared),
  CONSTRAINT bundles_counted CHECK (state NOT IN ('done', 'rejected') OR declared = accepted + rejected + duplicates + conflicts)
);
CREATE UNIQUE INDEX bundles_folder ON bundles (folder_id);
CREATE INDEX bundles_due ON bundles (state, due_at);
CREATE INDEX bundles_account ON bundles (account_id, id);
CREATE INDEX bundles_turn ON bundles (state, account_id, due_at);

-- The files of a bundle, from its manifest.
CREATE TABLE bundle_members (
  bundle_id TEXT    NOT NULL,
  n         INTEGER NOT NULL, -- from 1, in the order of the manifest
  name      TEXT    NOT NULL,
  size      INTEGER NOT NULL,
  type      TEXT    NOT NULL,
  sha256    TEXT    NOT NULL,
  documents INTEGER NOT NULL, -- declared number
  node_id   TEXT, -- the file
  blob_id   TEXT, -- content when it was checked
  state     TEXT    NOT NULL, -- pending | done | rejected
  reason    TEXT    NOT NULL,
  PRIMARY KEY (bundle_id, n)
) WITHOUT ROWID;

-- The outcome for each declared document.
CREATE TABLE bundle_records (
  bundle_id   TEXT    NOT NULL,
  member      INTEGER NOT NULL, -- number of the member
  idx         INTEGER NOT NULL, -- of the document in the member, from 0
  outcome     TEXT    NOT NULL, -- accepted | rejected | duplicate | conflict
  reason      TEXT    NOT NULL, -- code
  counts      INTEGER NOT NULL, -- number of documents: a damaged member has one row for all
  document_id TEXT, -- the document, or the one that it duplicates or conflicts with
  number      TEXT    NOT NULL, -- from the document
  findings    TEXT    NOT NULL, -- JSON; empty: none
  decided_by  TEXT, -- the user who accepted a rejected document; NULL: none
  decided_at  INTEGER NOT NULL DEFAULT 0,
  decision    TEXT    NOT NULL DEFAULT '', -- reason given by that user
  PRIMARY KEY (bundle_id, member, idx)
) WITHOUT ROWID;
CREATE INDEX bundle_records_outcome ON bundle_records (bundle_id, outcome, member, idx);
CREATE INDEX bundle_records_document ON bundle_records (document_id);

-- Accepted documents. doc_key is unique per account.
CREATE TABLE documents (
  id          TEXT    NOT NULL PRIMARY KEY,
  account_id  TEXT    NOT NULL,
  source      TEXT    NOT NULL,
  doc_key     TEXT    NOT NULL, -- SHA-256 of source, seller id, number and date
  hash        TEXT    NOT NULL, -- of the parsed document
  bundle_id   TEXT    NOT NULL, -- origin, with member and idx
  member      INTEGER NOT NULL,
  idx         INTEGER NOT NULL,
  type        TEXT    NOT NULL,
  number      TEXT    NOT NULL,
  dated       TEXT    NOT NULL, -- YYYY-MM-DD
  seller_id   TEXT    NOT NULL,
  seller_name TEXT    NOT NULL,
  buyer_id    TEXT    NOT NULL,
  buyer_name  TEXT    NOT NULL,
  currency    TEXT    NOT NULL,
  total       TEXT    NOT NULL, -- exact
  payable     TEXT    NOT NULL,
  total_e4    INTEGER NOT NULL, -- in ten-thousandths, rounded down and clamped: for filters
  state       TEXT    NOT NULL, -- accepted | conflict
  file_id     TEXT, -- node of the member
  pdf_id      TEXT,
  search      TEXT    NOT NULL, -- number and names, folded
  body        BLOB    NOT NULL, -- parsed document, JSON, deflated
  created_at  INTEGER NOT NULL,
  updated_at  INTEGER NOT NULL
);
CREATE UNIQUE INDEX documents_key ON documents (account_id, doc_key);
CREATE INDEX documents_dated ON documents (account_id, dated, id);
CREATE INDEX documents_source ON documents (account_id, source, dated, id);

-- Documents that have the key of an accepted one and different content.
CREATE TABLE document_conflicts (
  id          TEXT    NOT NULL PRIMARY KEY,
  account_id  TEXT    NOT NULL,
  document_id TEXT    NOT NULL,
  hash        TEXT    NOT NULL,
  bundle_id   TEXT    NOT NULL,
  member      INTEGER NOT NULL,
  idx         INTEGER NOT NULL,
  file_id     TEXT,
  pdf_id      TEXT,
  body        BLOB    NOT NULL, -- the other document, or the one that was replaced
  state       TEXT    NOT NULL, -- open | discarded | replaced
  created_at  INTEGER NOT NULL,
  settled_at  INTEGER NOT NULL DEFAULT 0,
  settled_by  TEXT
);
CREATE UNIQUE INDEX document_conflicts_side ON document_conflicts (document_id, hash);
CREATE INDEX document_conflicts_open ON document_conflicts (account_id, state, id);

-- Migration to another database.

-- The role of this database in the migration: one row, or none when no migration runs. Of the tables here only copies
-- is migrated.
CREATE TABLE migration_side (
  id         INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
  migration  TEXT    NOT NULL, -- id of the migration, equal on both sides
  role       INTEGER NOT NULL, -- 1 primary | 2 secondary | 3 fenced, during a switch | 4 retired
  epoch      INTEGER NOT NULL, -- raised with every change of the migration; the higher one is valid
  term       INTEGER NOT NULL, -- raised when the primary changes: versions of a later term are newer
  phase      INTEGER NOT NULL,
  percent    INTEGER NOT NULL, -- accounts that read from the other side in phase 3
  careful    INTEGER NOT NULL, -- 1: reads ask which side is primary first; around a switch
  paused     INTEGER NOT NULL,
  applying   INTEGER NOT NULL DEFAULT 0, -- 1 in a transaction that applies rows: triggers ignore it
  here       TEXT    NOT NULL, -- address of this side
  peer       TEXT    NOT NULL, -- address of the other side; '': only contents move
  contents   TEXT    NOT NULL, -- new address of the contents; '': they stay
  marker     TEXT    NOT NULL, -- identifies the secondary that was filled
  changed_at INTEGER NOT NULL,
  begun_at   INTEGER NOT NULL
);

-- Changed rows. Triggers that exist only during a migration insert them in the transaction of the change.
CREATE TABLE migration_changes (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  tbl     TEXT    NOT NULL,
  k       TEXT    NOT NULL, -- primary key: one column as text, or hex joined by dots
  account TEXT    NOT NULL -- owner of the row; '': none
);
CREATE INDEX migration_changes_account ON migration_changes (account);

-- On the secondary: the last change applied to each row, so that late changes are ignored. Rows of deleted rows stay.
CREATE TABLE migration_versions (
  tbl     TEXT    NOT NULL,
  k       TEXT    NOT NULL,
  version INTEGER NOT NULL, -- term and seq of the change
  deleted INTEGER NOT NULL,
  PRIMARY KEY (tbl, k)
) WITHOUT ROWID;

-- On the secondary: how far each table was filled (kind fill) and compared (kind check).
CREATE TABLE migration_progress (
  kind   TEXT    NOT NULL,
  tbl    TEXT    NOT NULL,
  last   TEXT    NOT NULL, -- key of the last row, as in migration_changes; '': none
  done   INTEGER NOT NULL, -- rows
  total  INTEGER NOT NULL, -- rows at the start
  ended  INTEGER NOT NULL, -- 1: complete
  digest TEXT    NOT NULL, -- of the compared rows, hex
  PRIMARY KEY (kind, tbl)
) WITHOUT ROWID;

-- The epoch that each instance acts by.
CREATE TABLE migration_acks (
  instance INTEGER NOT NULL PRIMARY KEY, -- generation
  epoch    INTEGER NOT NULL, -- acknowledged
  seen_at  INTEGER NOT NULL
);

-- On the primary: full comparisons of both sides.
CREATE TABLE migration_checksums (
  id        TEXT    NOT NULL PRIMARY KEY,
  migration TEXT    NOT NULL,
  marker    TEXT    NOT NULL, -- of the compared secondary
  term      INTEGER NOT NULL,
  state     TEXT    NOT NULL, -- running | done
  row_count INTEGER NOT NULL,
  unequal   INTEGER NOT NULL,
  digest    TEXT    NOT NULL,
  begun_at  INTEGER NOT NULL,
  ended_at  INTEGER NOT NULL
) WITHOUT ROWID;

-- Differences found between both sides.
CREATE TABLE migration_mismatches (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  migration TEXT    NOT NULL,
  source    TEXT    NOT NULL, -- read | checksum
  subject   TEXT    NOT NULL, -- a query, or table and key
  ours      TEXT    NOT NULL, -- value of the primary
  theirs    TEXT    NOT NULL,
  found_at  INTEGER NOT NULL,
  explained INTEGER NOT NULL DEFAULT 0 -- 1: explained by an administrator or by a later equal comparison
);

-- Contents to copy to the other side while contents move. Triggers on blobs insert them.
CREATE TABLE copies (
  file TEXT NOT NULL PRIMARY KEY -- blobs.file
) WITHOUT ROWID;

-- Why an instance cannot act by an epoch yet.
CREATE TABLE migration_waits (
  instance INTEGER NOT NULL PRIMARY KEY, -- generation
  epoch    INTEGER NOT NULL, -- received, not yet acknowledged
  why      TEXT    NOT NULL,
  seen_at  INTEGER NOT NULL
);

-- Who explained a mismatch, and how.
CREATE TABLE migration_explained (
  mismatch INTEGER NOT NULL PRIMARY KEY, -- migration_mismatches.id
  who      TEXT    NOT NULL, -- name of the user; '': a later comparison was equal
  why      TEXT    NOT NULL,
  at       INTEGER NOT NULL
);

-- On the primary: the rate limits, and the progress of dropping the old side. A switch carries them over.
CREATE TABLE migration_notes (
  name  TEXT NOT NULL PRIMARY KEY, -- pace | old
  value TEXT NOT NULL -- JSON
) WITHOUT ROWID;

-- Deleted content, charged to the account that deleted it.

-- Released files that are still on the disk, by the account that deleted them. The quota bounds their sum (Q6):
-- otherwise an account that keeps writing and deleting a file would fill the disk.
CREATE TABLE owed_files (
  file       TEXT    NOT NULL PRIMARY KEY, -- released.file
  account_id TEXT    NOT NULL,
  size       INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX owed_files_account ON owed_files (account_id, size);

-- The sum of owed_files per account, so that an upload reads one row.
CREATE TABLE owed (
  account_id TEXT    NOT NULL PRIMARY KEY,
  size       INTEGER NOT NULL CHECK (size >= 0)
) WITHOUT ROWID;

-- The size of each export's list, which is limited per account.
CREATE TABLE export_texts (
  export_id  TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  size       INTEGER NOT NULL -- bytes of its rows in export_wants, inserted before them
) WITHOUT ROWID;
CREATE INDEX export_texts_account ON export_texts (account_id, size);

-- The number of non-current versions per account, which is limited.
CREATE TABLE old_versions (
  account_id TEXT    NOT NULL PRIMARY KEY,
  n          INTEGER NOT NULL CHECK (n >= 0) -- versions that are not current
) WITHOUT ROWID;

-- Token and code of a share, encrypted with a key outside the database.
CREATE TABLE share_texts (
  share_id TEXT NOT NULL PRIMARY KEY REFERENCES shares (id) ON DELETE CASCADE,
  sealed   TEXT NOT NULL
) WITHOUT ROWID;

-- Token of a collect link, encrypted with a key outside the database.
CREATE TABLE collect_texts (
  collect_id TEXT NOT NULL PRIMARY KEY REFERENCES collects (id) ON DELETE CASCADE,
  sealed     TEXT NOT NULL
) WITHOUT ROWID;

-- When data kept for a limited time may be deleted: trash and tombstones of an account, old versions of a file. since
-- may be too early, never too late; the reader corrects it or deletes the row.
CREATE TABLE due (
  kind       TEXT    NOT NULL, -- trash | tombstones | versions
  id         TEXT    NOT NULL, -- an account; for versions a file
  account_id TEXT    NOT NULL,
  since      INTEGER NOT NULL,
  PRIMARY KEY (kind, id)
) WITHOUT ROWID;
CREATE INDEX due_since ON due (kind, since, id);
CREATE INDEX due_own ON due (account_id, kind, since, id);

-- Downloads of selections.

-- Selections of files for download as a zip, so that a browser can resume a plain GET at any instance. Kept for a
-- day, unless newer ones of the account displace them.
CREATE TABLE archives (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  name       TEXT    NOT NULL, -- of the zip and of the directory in it
  folder_id  TEXT, -- the selected folder; NULL: the nodes in nodes
  nodes      BLOB    NOT NULL, -- ids, 16 bytes each
  picked     INTEGER NOT NULL, -- number of nodes
  etag       TEXT    NOT NULL, -- of the zip when the row was created
  made_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX archives_account ON archives (account_id, made_at, id, picked);
CREATE INDEX archives_made ON archives (made_at);

-- When the last export of an account was started: accounts take turns.
CREATE TABLE export_turns (
  account_id TEXT    NOT NULL PRIMARY KEY,
  turn_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX export_turns_at ON export_turns (turn_at);

-- Bulk operations.

-- Work on many nodes from one request, and its progress. Kept for a week after its end. bulks_ended and bulks_state
-- are partial, so that housekeeping and a start read only matching rows.
CREATE TABLE bulks (
  id         TEXT    NOT NULL PRIMARY KEY,
  account_id TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  kind       TEXT    NOT NULL, -- trash | restore | delete | move | copy | unshare
  parent_id  TEXT, -- destination
  conflict   TEXT    NOT NULL,
  source_id  TEXT, -- the bulk operation that this one undoes
  filled     INTEGER NOT NULL, -- chunks of source_id that remain to be copied
  undone_by  TEXT,
  state      TEXT    NOT NULL, -- running | done | cancelled
  stopping   INTEGER NOT NULL, -- 1: stops after the current item
  piece      INTEGER NOT NULL, -- current chunk
  item       INTEGER NOT NULL, -- current item in the chunk
  child_id   TEXT, -- the operation that processes that item
  done       INTEGER NOT NULL, -- items processed, including failures
  failed     INTEGER NOT NULL,
  total      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX bulks_account ON bulks (account_id, id);
CREATE INDEX bulks_state ON bulks (state, id) WHERE state = 'running';
CREATE INDEX bulks_ended ON bulks (state, updated_at) WHERE state IN ('done', 'cancelled');

-- The items of a bulk operation in chunks, with each outcome and previous state, to list failures, retry them and
-- undo the work.
CREATE TABLE bulk_items (
  bulk_id    TEXT    NOT NULL,
  n          INTEGER NOT NULL, -- number of the chunk
  account_id TEXT    NOT NULL,
  items      BLOB    NOT NULL, -- ids, 16 bytes each
  record     BLOB    NOT NULL, -- JSON: outcome of each item; '': none yet
  unsettled  INTEGER NOT NULL, -- items that wait or failed
  failed     INTEGER NOT NULL,
  PRIMARY KEY (bulk_id, n)
) WITHOUT ROWID;

-- A list too long for one zip becomes several batches: which part of which set each is. A single batch has no row.
CREATE TABLE export_parts (
  export_id TEXT    NOT NULL PRIMARY KEY,
  set_id    TEXT    NOT NULL, -- the first batch of the set
  part      INTEGER NOT NULL, -- from 1
  parts     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX export_parts_set ON export_parts (set_id);

-- How far the last export of a folder and filter reached, so that the next one can contain only the changes.
CREATE TABLE export_marks (
  account_id TEXT    NOT NULL,
  mark       TEXT    NOT NULL, -- SHA-256 of the folder and of the filter without its times
  seq        INTEGER NOT NULL, -- of the account's tree
  at         INTEGER NOT NULL, -- time of that seq
  PRIMARY KEY (account_id, mark)
) WITHOUT ROWID;

-- Timers.

-- The steps of fired timers, for administrators. Written in batches after the work; a crash loses unwritten steps.
-- Kept for three days and at most a million rows.
CREATE TABLE timer_steps (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  timer      TEXT    NOT NULL, -- key: kind/uuid
  gen        INTEGER NOT NULL,
  step       TEXT    NOT NULL, -- armed | fired | published | consumed | applied | snoozed | waited | failed | dead
  begun_at   INTEGER NOT NULL, -- start of the wait or work that ends with this step
  done_at    INTEGER NOT NULL,
  delivery   INTEGER NOT NULL,
  instance   TEXT    NOT NULL,
  reason     TEXT    NOT NULL, -- drive.Kind code of an error
  push_backs INTEGER NOT NULL DEFAULT 0, -- how often the queue had postponed it when it fired
  pushed_at  INTEGER NOT NULL DEFAULT 0, -- when it was last postponed
  shard      TEXT    NOT NULL DEFAULT '', -- of the queue
  slice      TEXT    NOT NULL DEFAULT '' -- time slice of the queue
);
CREATE INDEX timer_steps_timer ON timer_steps (timer, id);

-- Spaces, groups and grants.

-- A space is an account without a user, shared by its members.
CREATE TABLE spaces (
  account_id   TEXT    NOT NULL PRIMARY KEY REFERENCES accounts (id),
  root_id      TEXT    NOT NULL, -- root of its tree, which never changes
  name         TEXT    NOT NULL,
  slot         TEXT    NOT NULL UNIQUE, -- the folded name; "/<id>" once deleted, so that the name is free again
  state        TEXT    NOT NULL, -- active | archived | deleted
  created_by   TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  deleted_at   INTEGER NOT NULL DEFAULT 0,
  links        TEXT    NOT NULL DEFAULT 'editors', -- who may create share links
  outward      TEXT    NOT NULL DEFAULT 'managers', -- who may grant roles to users who are not members
  trash_days   INTEGER NOT NULL DEFAULT 0, -- how long trash is kept; 0: the default of the server
  version_days INTEGER NOT NULL DEFAULT 0 -- how long old versions are kept; 0: the default of the server
) WITHOUT ROWID;
CREATE INDEX spaces_deleted ON spaces (deleted_at) WHERE deleted_at > 0;
CREATE INDEX spaces_trash_days ON spaces (trash_days);
CREATE INDEX spaces_version_days ON spaces (version_days);

-- Groups of users.
CREATE TABLE user_groups (
  id         TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL,
  slot       TEXT    NOT NULL UNIQUE, -- the folded name
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

-- Members of groups.
CREATE TABLE group_members (
  group_id   TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (group_id, user_id)
) WITHOUT ROWID;
CREATE INDEX group_members_user ON group_members (user_id, group_id);

-- Roles at a node, given to users or groups. The key finds what applies at a node, grants_principal what is shared
-- with a user, grants_account what an account shares.
CREATE TABLE grants (
  node_id      TEXT    NOT NULL,
  principal_id TEXT    NOT NULL, -- a user or a group
  account_id   TEXT    NOT NULL, -- owner of the node
  kind         TEXT    NOT NULL, -- user | group
  role         TEXT    NOT NULL, -- none | viewer | uploader | editor | manager
  granted_by   TEXT    NOT NULL,
  note         TEXT    NOT NULL,
  created_at   INTEGER NOT NULL,
  updated_at   INTEGER NOT NULL,
  expires_at   INTEGER NOT NULL, -- 0: never
  PRIMARY KEY (node_id, principal_id)
) WITHOUT ROWID;
CREATE INDEX grants_principal ON grants (principal_id, account_id, node_id);
CREATE INDEX grants_account ON grants (account_id, node_id, principal_id);
CREATE INDEX grants_end ON grants (expires_at) WHERE expires_at > 0;

-- Activity and webhooks.

-- One row per effect, written by its transaction. Within an account, ids commit in order, because the writer holds
-- the lock on the ledger. Each trees.seq has one row, starting at the first one kept, so that gaps can be detected.
CREATE TABLE activity (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  salt       INTEGER NOT NULL, -- random: makes an id that is assigned again after a restore a different event
  account_id TEXT    NOT NULL,
  seq        INTEGER NOT NULL, -- trees.seq of the change; 0: not a change of a node
  at         INTEGER NOT NULL,
  verb       TEXT    NOT NULL,
  user_id    TEXT    NOT NULL, -- '': the program, or a visitor
  session_id TEXT    NOT NULL, -- login or token; '': unknown
  head       TEXT    NOT NULL, -- protocol: api, tus, draft, link
  address    TEXT    NOT NULL,
  node_id    TEXT    NOT NULL, -- '': none
  folder_id  TEXT    NOT NULL, -- parent of the node
  name       TEXT    NOT NULL, -- of the node or other subject
  data       TEXT    NOT NULL -- JSON: previous values, sizes, versions
);
CREATE INDEX activity_account ON activity (account_id, id);
CREATE INDEX activity_node ON activity (node_id, id);
CREATE INDEX activity_folder ON activity (folder_id, id);

-- Addresses to which an account's activity is sent in order. The position advances by compare-and-set: two concurrent
-- senders repeat entries and omit none.
CREATE TABLE webhooks (
  id            TEXT    NOT NULL PRIMARY KEY,
  account_id    TEXT    NOT NULL REFERENCES accounts (id),
  user_id       TEXT    NOT NULL, -- the creator: the webhook is disabled when they lose access
  name          TEXT    NOT NULL,
  url           TEXT    NOT NULL,
  secret        TEXT    NOT NULL, -- encrypted
  types         TEXT    NOT NULL, -- verbs or prefixes, separated by commas; '': all but upload
  state         TEXT    NOT NULL, -- active | disabled
  reason        TEXT    NOT NULL, -- why it was disabled: failing | right | secret | gone; '': by a user
  position      INTEGER NOT NULL, -- activity.id of the last entry sent or skipped
  skipped       INTEGER NOT NULL, -- entries that the receiver refused permanently
  failures      INTEGER NOT NULL, -- consecutive
  failing_since INTEGER NOT NULL, -- 0: the last attempt succeeded
  not_before    INTEGER NOT NULL, -- next attempt
  status        INTEGER NOT NULL, -- HTTP status of the last attempt; 0: no answer
  error         TEXT    NOT NULL, -- code of the last error
  sent_at       INTEGER NOT NULL, -- last attempt; 0: none
  created_at    INTEGER NOT NULL,
  updated_at    INTEGER NOT NULL,
  old_secret    TEXT    NOT NULL DEFAULT '', -- previous secret, encrypted: requests carry both signatures until old_until
  old_until     INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX webhooks_account ON webhooks (account_id, id);
CREATE INDEX webhooks_due ON webhooks (state, not_before);

-- How a user shows a node that is shared with them: renamed or hidden. Most shares have no row.
CREATE TABLE mounts (
  node_id    TEXT    NOT NULL,
  user_id    TEXT    NOT NULL, -- the receiver
  name       TEXT    NOT NULL, -- '': the owner's name for it
  hidden     INTEGER NOT NULL, -- 1: listed only on request
  updated_at INTEGER NOT NULL,
  shown      TEXT    NOT NULL DEFAULT '', -- unique name for clients that know only paths; '': not needed
  PRIMARY KEY (node_id, user_id)
) WITHOUT ROWID;
CREATE INDEX mounts_user ON mounts (user_id, node_id);
CREATE INDEX mounts_shown ON mounts (user_id, shown);

-- Starred files and folders. The key finds the rows of a deleted node, stars_user the list of a user.
CREATE TABLE stars (
  node_id    TEXT    NOT NULL,
  user_id    TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (node_id, user_id)
) WITHOUT ROWID;
CREATE INDEX stars_user ON stars (user_id, created_at, node_id);

-- WebDAV.

-- Locks of WebDAV clients.
CREATE TABLE dav_locks (
  id         TEXT    NOT NULL PRIMARY KEY, -- the token is urn:uuid:ID
  node_id    TEXT    NOT NULL,
  account_id TEXT    NOT NULL, -- owner of the node
  user_id    TEXT    NOT NULL,
  scope      TEXT    NOT NULL, -- exclusive | shared
  deep       INTEGER NOT NULL, -- 1: depth infinity
  made       INTEGER NOT NULL, -- 1: the lock created the file
  owner      TEXT    NOT NULL, -- XML from the client
  lasts      INTEGER NOT NULL, -- ms after each refresh
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX dav_locks_node ON dav_locks (node_id);
CREATE INDEX dav_locks_account ON dav_locks (account_id, expires_at);
CREATE INDEX dav_locks_end ON dav_locks (expires_at);

-- Properties set by WebDAV clients.
CREATE TABLE dav_properties (
  node_id    TEXT    NOT NULL,
  space      TEXT    NOT NULL, -- namespace; may be ''
  name       TEXT    NOT NULL,
  account_id TEXT    NOT NULL, -- owner of the node
  value      TEXT    NOT NULL, -- XML inside the element
  size       INTEGER NOT NULL, -- bytes of the three texts
  PRIMARY KEY (node_id, space, name)
) WITHOUT ROWID;
CREATE INDEX dav_properties_account ON dav_properties (account_id, size);

-- Numeric ids.

-- Numeric ids of nodes, for protocols that need them. Assigned on first use and never reused (AUTOINCREMENT).
CREATE TABLE node_numbers (
  number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  node_id TEXT    NOT NULL UNIQUE
);

-- Operation.

-- Storage figures, one row per day.
CREATE TABLE growth (
  day        TEXT    NOT NULL PRIMARY KEY, -- YYYY-MM-DD in UTC
  at         INTEGER NOT NULL, -- when the row was last updated
  accounts   INTEGER NOT NULL, -- users and spaces
  finished   INTEGER NOT NULL, -- bytes charged for files, versions and trash
  unfinished INTEGER NOT NULL, -- bytes charged for unfinished uploads
  free       INTEGER -- bytes free in the store; NULL: unknown
) WITHOUT ROWID;

-- Numeric ids of grants and share links, for protocols that need them. Assigned on first use and never reused.
CREATE TABLE share_numbers (
  number  INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
  node_id TEXT    NOT NULL,
  subject TEXT    NOT NULL, -- the user or group with the role, or the share link
  UNIQUE (node_id, subject)
);

-- Settings changed while the server runs. Each instance reads all of them every few seconds.
CREATE TABLE settings (
  name       TEXT    NOT NULL PRIMARY KEY, -- name of the flag
  value      TEXT    NOT NULL, -- as in the flag
  changed_at INTEGER NOT NULL,
  changed_by TEXT -- name of the user; NULL: a command on the machine
) WITHOUT ROWID;

-- Notifications.

-- Notifications. The id is the id of the cause, so that handling a cause twice notifies once. Ids are in the order of
-- time.
CREATE TABLE notices (
  user_id    TEXT    NOT NULL, -- the recipient
  id         TEXT    NOT NULL, -- id of the cause
  kind       TEXT    NOT NULL, -- share | role | space | group | export | collect | quota | webhook | operation
  what       TEXT    NOT NULL, -- given | changed | taken | ending | ended | ready | failed | arrived | full | disabled
  account_id TEXT    NOT NULL, -- the account concerned
  node_id    TEXT    NOT NULL, -- '': none
  by_id      TEXT    NOT NULL, -- who caused it; '': the program
  data       TEXT    NOT NULL, -- JSON
  at         INTEGER NOT NULL,
  read_at    INTEGER NOT NULL, -- 0: unread
  mail       INTEGER NOT NULL, -- 1: waits to be mailed
  PRIMARY KEY (user_id, id)
) WITHOUT ROWID;
CREATE INDEX notices_at ON notices (at);

-- How a user wants to be notified, and when the next mail is due. Most users have no row. notice_people_due is
-- partial: few users wait for a mail.
CREATE TABLE notice_people (
  user_id       TEXT    NOT NULL PRIMARY KEY,
  address       TEXT    NOT NULL, -- mail address; '': none
  state         TEXT    NOT NULL, -- none | asked | confirmed | refused
  code          TEXT    NOT NULL, -- confirms the address; '': none pending
  code_until    INTEGER NOT NULL,
  code_tries    INTEGER NOT NULL, -- wrong codes entered
  codes         INTEGER NOT NULL, -- codes requested since codes_since
  codes_since   INTEGER NOT NULL,
  language      TEXT    NOT NULL, -- en | zh-CN
  channels      TEXT    NOT NULL, -- JSON: kind to off | page | mail; default mail
  due_at        INTEGER NOT NULL, -- next mail; 0: none
  sent_at       INTEGER NOT NULL, -- last mail with notifications
  failures      INTEGER NOT NULL, -- consecutive
  failing_since INTEGER NOT NULL, -- 0: the last attempt succeeded
  updated_at    INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX notice_people_due ON notice_people (due_at) WHERE due_at > 0;

-- Sign-on.

-- Users known to an identity provider.
CREATE TABLE identities (
  id         TEXT    NOT NULL PRIMARY KEY, -- SHA-256 of issuer, NUL and subject, hex
  user_id    TEXT    NOT NULL REFERENCES users (id),
  issuer     TEXT    NOT NULL,
  subject    TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX identities_user ON identities (user_id);

-- Group memberships that come from the identity provider.
CREATE TABLE identity_groups (
  user_id  TEXT NOT NULL,
  group_id TEXT NOT NULL,
  PRIMARY KEY (user_id, group_id)
) WITHOUT ROWID;

-- Totals below each folder, updated by the transaction of each change. A folder without a row has not been summed
-- yet; then no folder above it has a row either, up to the first one in the trash. Missing rows are created on first
-- use.
CREATE TABLE folder_sums (
  folder_id TEXT    NOT NULL PRIMARY KEY,
  seq       INTEGER NOT NULL, -- trees.seq of the last change below the folder
  files     INTEGER NOT NULL, -- live files below it, as if the folder were live
  folders   INTEGER NOT NULL,
  size      INTEGER NOT NULL -- of their current versions
) WITHOUT ROWID;

-- Creating requests refused because their idempotency key belongs to another request, until an administrator settles
-- them.
CREATE TABLE key_conflicts (
  id          TEXT    NOT NULL PRIMARY KEY,
  user_id     TEXT    NOT NULL,
  method      TEXT    NOT NULL,
  route       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  fingerprint BLOB    NOT NULL, -- SHA-256 of path and body of the refused request
  body        BLOB    NOT NULL,
  times       INTEGER NOT NULL,
  first_at    INTEGER NOT NULL,
  last_at     INTEGER NOT NULL,
  UNIQUE (user_id, method, route, key, fingerprint)
) WITHOUT ROWID;
CREATE INDEX key_conflicts_user ON key_conflicts (user_id, id);
CREATE INDEX key_conflicts_age ON key_conflicts (last_at);
