// Package export makes one zip of many documents: files of the drive, and documents that are
// fetched from elsewhere.
//
// It owns the tables exports, export_* and archives. What the zip's bytes are is package zipline's
// business; here is who collects what, when, and what is kept until when.
//
// # Words
//
// A **batch** is one zip that somebody asked for. Its **list** (export_wants) is frozen before the
// batch exists. To **collect** an entry is to find it in the drive, or to fetch it, and to take a
// reference to its content: it has **arrived** (export_pins). One that cannot be collected is a row
// of export_errors and a line of err.txt. A **save point** is a number up to which all entries are
// dealt with. A **supplement** is another batch of the same root, its next revision, with what was
// missing.
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
// # Rooms
//
// Exports is the way in, one line for each act. Behind it:
//
//	orders      what is asked for becomes batches      catalog     what owners read of their batches
//	lists       what batches want, frozen and counted  calendar    schedules, and the batches of their months
//	queue       who works on which batch, and turns    workers     what is due, done on this machine
//	collector   entries arrive; the batch is sealed    releases    what a batch holds is given back
//	sender      zips are laid out and sent             selections  zips made while they are sent
//	links       a zip without a session                courier     a sealed zip is written elsewhere
//	publisher   objects of the bucket                  ground      options, database, clocks, counters of all rooms
//
// # Who works
//
// A worker takes a batch in one transaction: it locks the row of its machine, counts what runs
// there (two at most), and takes the first batch that is due, under the next epoch. From then on
// every statement of it names that epoch: whoever took the batch since, or ended it, has raised it,
// and the statement changes nothing (X3). A running batch is due when its lease is over, by the
// clock of the database. So a worker that died, stands still or cannot reach the database loses its
// batch after 30 s and notices at its next write.
//
// # What is true
//
//	X1  an entry is in export_pins or in export_errors or in neither, never in both; the counts of the batch are those of the rows
//	X2  a batch is sealed only when collected + failed = total; it stays so (a CHECK)
//	X3  a statement of a worker whose epoch has passed changes no row
//	X4  each row of export_pins is one reference of its blob (that of a folder has none), and its charged bytes are in the ledger's finished
//	X5  a batch that has ended gives all its references back, and then none is left
//	X6  of a schedule there is one batch for each month
//	X7  of a batch that is sealed there is one record (stream.ExportSealed), at most one that it ends soon, and one job for the bucket if its schedule sends it there,
//	    written by the transaction that seals it
//
// # Who pays
//
// What is fetched is stored for the account and charged to it until the batch ends, as a file would
// be. A reference to a file of the drive costs nothing: it is charged there. When the file is
// deleted meanwhile, its bytes stay until the batch ends, and nobody is charged for them; an
// account has at most 50 batches that hold something, each for a bounded time.
//
// # Locks, in this order
//
//	ledger (where something is charged) ─► batch ─► blobs by id
package export
