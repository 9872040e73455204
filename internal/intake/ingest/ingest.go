package ingest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
)

// Options configure New. DB, Tree and Store are required; the zero value of each other field is its
// default.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Store   blob.Store
	Content content.Content
	// Events publishes sealed bundles, and accepted, conflicting and rejected documents. If it
	// is nil, nothing is published, and workers find bundles by polling, a few seconds later.
	Events   stream.Publisher
	Activity *activity.Log // records the decisions of users; nil: they are not recorded
	Ledger   quota.Ledger  // locks the account in transactions that write activity
	Instance string        // id of this process, unique per start; default "1"
	Workers  int           // bundles that this process handles concurrently; default 2
	// Wait is the time that a bundle waits for members that arrive after its meta.json.
	// Default: 15 min.
	Wait time.Duration
	// Clock returns the time that all instances share. Default: the database's clock.
	Clock func(ctx context.Context) (drive.Time, error)
	Log   *slog.Logger
}

// Intervals and limits of the workers.
const (
	pollEvery      = 10 * time.Second // maximum interval between two polls for due bundles
	reconcileEvery = 5 * time.Minute
	maxTries       = 5               // tries without progress before a bundle is rejected
	maxPause       = 5 * time.Minute // maximum backoff between two tries
	batchSize      = 200             // documents per transaction, which takes about 20 ms
	batchBytes     = 4 * drive.MiB   // of deflated models per transaction
)

// Intake manages bundles and documents. Each method forwards to the part that does the work. It is
// safe for concurrent use.
type Intake struct {
	*core

	arrivals *bundleRecorder
	catalog  *catalog
	library  *library
	rulebook *rulebook
	queue    *queue
	checker  *checker
	workers  *workers
	appeals  *acceptor
}

// core holds the options, the clock and the counters that all types of the package share.
type core struct {
	opt Options
	log *slog.Logger
	// wake receives a value when a bundle was sealed, to end the pause between polls.
	wake  chan struct{}
	stats Stats
	halt  func(step string) // test hook, called with the name of each step of a worker
}

// Stats counts the events of this process since it started.
type Stats struct {
	Done, Rejected, Retried, Found  atomic.Int64 // bundles; Found: by the reconciler
	Accepted, Refused, Double, Torn atomic.Int64 // documents by outcome: accepted, rejected, duplicate, conflict
}

// New returns an Intake. It does no I/O; Run, RunReconciler and RunGatherer do the background work.
func New(opt Options) *Intake {
	opt.Instance = cmp.Or(opt.Instance, "1")
	opt.Workers = cmp.Or(opt.Workers, 2)
	opt.Wait = cmp.Or(opt.Wait, 15*time.Minute)
	if opt.Clock == nil {
		opt.Clock = opt.DB.Now
	}
	opt.Log = cmp.Or(opt.Log, slog.Default())
	g := &core{opt: opt, log: opt.Log, wake: make(chan struct{}, 1), halt: func(string) {}}
	in := &Intake{core: g, arrivals: &bundleRecorder{g}, library: &library{g}, rulebook: &rulebook{g}, queue: &queue{core: g}, checker: &checker{g}}
	in.catalog = &catalog{core: g, arrivals: in.arrivals}
	in.workers = &workers{
		core: g, queue: in.queue, checker: in.checker, rulebook: in.rulebook, library: in.library, slots: make(chan struct{}, opt.Workers), large: make(chan struct{}, 1),
	}
	in.appeals = &acceptor{core: g, catalog: in.catalog, workers: in.workers}
	return in
}

// Stats returns the counters of this process. They are live; the caller must not write them.
func (in *core) Stats() *Stats { return &in.stats }

// now returns the time of the clock that all instances share. It fails if that clock, the database,
// cannot be asked.
func (in *core) now(ctx context.Context) (drive.Time, error) {
	now, err := in.opt.Clock(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the database for the time: %w", err)
	}
	return now, nil
}

// State is the state of a bundle: sealed, running, done or rejected.
type State string

// States of a bundle; see the package comment.
const (
	Sealed   State = "sealed"
	Running  State = "running"
	Done     State = "done"
	Rejected State = "rejected"
)

// Outcome is the result for a document that a bundle declares.
type Outcome string

// Outcomes of a document.
const (
	Accept    Outcome = "accepted"
	Reject    Outcome = "rejected"
	Duplicate Outcome = "duplicate"
	Conflict  Outcome = "conflict"
)

// pos is a position in a bundle: member and index of a document. As a save point it counts what is
// stored: all documents of the first member members, and the first index documents of the next one.
type pos struct{ member, index int64 }

// counts holds the numbers of a bundle's documents by outcome.
type counts struct{ declared, accepted, rejected, duplicates, conflicts, surplus int64 }

// left returns the number of declared documents that have no outcome yet.
func (c counts) left() int64 {
	return c.declared - c.accepted - c.rejected - c.duplicates - c.conflicts
}

// row is a bundle as stored in the table bundles.
type row struct {
	ID       drive.BundleID
	Account  drive.AccountID
	Source   string
	SenderID string
	Folder   drive.NodeID
	Meta     drive.NodeID // version of meta.json that sealed the bundle
	Version  drive.VersionID
	State    State
	Reason   string
	Detail   string
	counts
	Members    int64
	Size       drive.ByteSize
	Checked    bool
	Save       pos
	Epoch      int64
	Tries      int64
	Attempts   int64
	Sealed     drive.Time
	WaitsUntil drive.Time
	Ended      drive.Time
}

// columns lists the columns of bundles in the order of scanRow.
const columns = `id, account_id, source, sender_id, folder_id, meta_id, meta_version, state, reason, detail, declared, accepted, rejected,
	duplicates, conflicts, surplus, members, size, checked, save_member, save_index, epoch, tries, attempts, sealed_at, waits_until, ended_at`

// selectBundles is the start of a query whose rows scanRow reads.
const selectBundles = "SELECT " + columns + " FROM bundles "

// scanRow scans a row of columns into b. It fails with the error of scan.
func scanRow(b *row, scan func(...any) error) error {
	return scan(&b.ID, &b.Account, &b.Source, &b.SenderID, &b.Folder, &b.Meta, &b.Version, &b.State, &b.Reason, &b.Detail, &b.declared,
		&b.accepted, &b.rejected, &b.duplicates, &b.conflicts, &b.surplus, &b.Members, &b.Size, &b.Checked, &b.Save.member, &b.Save.index,
		&b.Epoch, &b.Tries, &b.Attempts, &b.Sealed, &b.WaitsUntil, &b.Ended)
}

// find returns the first bundle that matches where, the end of a SELECT, which may lock the row.
// NotFound: there is none. It does not check the account.
func (in *core) find(ctx context.Context, q sqldb.Querier, where string, args ...any) (b row, err error) {
	err = scanRow(&b, q.QueryRow(ctx, selectBundles+where, args...).Scan)
	return b, err
}

// Bundle is a bundle as shown to its owner.
type Bundle struct {
	ID       drive.BundleID `json:"id"`
	Source   string         `json:"source"`
	Folder   drive.NodeID   `json:"folder"`
	SenderID string         `json:"sender_id" doc:"id assigned by the sender"`
	Gathered bool           `json:"gathered,omitempty" doc:"true: created from files that arrived without meta.json"`
	State    State          `json:"state" enum:"sealed,running,done,rejected"`
	Reason   *string        `json:"reason" nullable:"true" doc:"code of the reason why it was rejected or waits"`
	Detail   string         `json:"detail,omitempty" doc:"reason as text"`

	Declared  int64 `json:"declared" doc:"number of documents in the manifest; in an ended bundle accepted + rejected + duplicate + conflict"`
	Accepted  int64 `json:"accepted"`
	Rejected  int64 `json:"rejected"`
	Duplicate int64 `json:"duplicate"`
	Conflict  int64 `json:"conflict" doc:"number of documents in conflict with others"`
	Surplus   int64 `json:"surplus" doc:"number of documents beyond the declared ones; they are not imported"`

	Members  int64          `json:"members"`
	Size     drive.ByteSize `json:"size"`
	SealedAt drive.Time     `json:"sealed_at"`
	EndedAt  *drive.Time    `json:"ended_at" nullable:"true"`
	Attempts int64          `json:"attempts"`
}

// view returns the bundle as shown to its owner.
func (b row) view() Bundle {
	v := Bundle{
		ID: b.ID, Source: b.Source, Folder: b.Folder, SenderID: b.SenderID, State: b.State, Detail: b.Detail, Declared: b.declared,
		Accepted: b.accepted, Rejected: b.rejected, Duplicate: b.duplicates, Conflict: b.conflicts, Surplus: b.surplus, Members: b.Members,
		Size: b.Size, SealedAt: b.Sealed, Attempts: b.Attempts, Gathered: b.gathered(),
	}
	if b.Reason != "" {
		v.Reason = &b.Reason
	}
	if b.Ended != 0 {
		v.EndedAt = &b.Ended
	}
	return v
}
