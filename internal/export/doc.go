// Package export packs many documents into one zip: files of the drive, and documents fetched by
// URL.
//
// It owns the tables exports, export_* and archives. Package zipline defines the bytes of the zip;
// this package decides which instance collects which documents, when, and how long they are kept.
//
// # Words
//
// A **batch** is one requested zip. Its **list** of entries (export_wants) is frozen before the
// batch exists. To **collect** an entry means to find it in the drive, or to fetch it, and to add a
// reference to its content; the entry has then **arrived** (export_pins). An entry that cannot be
// collected is a row of export_errors and a line of err.txt. A **deferred** entry failed in this
// try and is retried later. The **save point** of a batch is an entry number: all entries up to it
// have arrived, failed or been deferred. A **supplement** is another batch of the same root, its
// next revision, with the entries that were missing.
//
// # Life
//
//	           claim                     all dealt with
//	pending ──────────► running ───────────────────────────► sealed ──expires──► expired
//	   ▲                 │ ▲  │ yields, stops: pending          │ cancel
//	   └─────────────────┘ │  │ fails: aborted, and due again   ▼
//	                       │  ▼                             cancelled ◄── cancel ── pending, running, aborted
//	                    aborted ──too often──► failed
//
// # Types
//
// Exports is the facade; each method forwards to one of these types:
//
//	creator     creates batches from requests          catalog       reads batches for their owners
//	listStore   freezes, splits and charges lists      calendar      runs schedules and creates their batches
//	queue       claims batches: leases and turns       workerPool    runs due work on this machine
//	collector   collects entries and seals batches     releaser      releases the references of ended batches
//	sender      lays out and sends zips                archiveStore  selections, zipped while they are sent
//	linkStore   download links without a session       jobRunner     writes sealed zips elsewhere
//	publisher   manages the objects of the bucket      core          options, database, clocks, counters: shared by all
//
// # Claims
//
// A worker claims a batch in one transaction: it locks the row of its machine, counts the running
// work there (two at most), and claims the first due batch under the next epoch, a fencing token.
// Each later statement of the worker names that epoch. Another worker that claims the batch, or
// ends it, increments the epoch, and the statements of the stale worker change nothing (X3). A
// running batch is due when its lease has expired by the database clock. So a worker that crashed,
// stalled or lost the database loses its batch after 30 s and notices at its next write.
//
// # Invariants
//
//	X1  an entry is in export_pins, in export_errors, or in neither, never in both; the counts of the batch match these rows
//	X2  a batch is sealed only when collected + failed = total, and this stays true (a CHECK)
//	X3  a statement of a worker with a stale epoch changes no row
//	X4  each row of export_pins is one reference to its blob (a folder has none), and its charged bytes are part of the ledger's finished bytes
//	X5  an ended batch releases all its references
//	X6  a schedule has at most one batch for each month
//	X7  the transaction that seals a batch writes one event (stream.ExportSealed), and one job for the bucket if its schedule asks for it; one event at most
//	    tells that the batch expires soon
//
// # Charges
//
// Fetched documents are stored for the account and charged to it like files until the batch ends. A
// reference to a file of the drive is free: the file is already charged. If that file is deleted,
// the batch keeps its bytes uncharged until the batch ends; an account has at most 50 batches with
// references, each for a bounded time.
//
// # Lock order
//
//	ledger (where something is charged) ─► batch ─► blobs by id
package export
