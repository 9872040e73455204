package export

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/account"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/turn"
	"example.org/smartdrive/internal/export/fetch"
	"example.org/smartdrive/internal/export/zipline"
)

// Options configures New. DB, Tree, Store, Secret and Users are required. The zero value of another
// field selects its default.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Store   blob.Store
	Content content.Content
	Ledger  quota.Ledger
	// Secret returns the secret of the installation. Keys for download links are derived from it.
	Secret func(ctx context.Context) ([]byte, error)
	Users  *account.Users

	Instance   string // unique id of this process start; default "1"
	Machine    string // name of the machine, for the limit of two workers per machine; default "local"
	Generation int64  // fencing number of this start; part of the names of fetched files in the store
	// CheckInstance returns an error in tx if this instance was declared dead. Default: always nil.
	CheckInstance func(ctx context.Context, tx *sqldb.Tx) error

	MaxEntries int // per batch; default 10,000. A longer list is split into several batches
	// MaxSize limits the total size of the files of a batch at its creation; default 256 GiB. A
	// larger list is split into several batches.
	MaxSize   drive.ByteSize
	Lifetime  time.Duration // time from sealing to expiry; default 7 d
	LateAfter time.Duration // running time after which a batch is late and its owner is notified; default 1 h
	Fetch     fetch.Options // empty Hosts disables fetching
	// MinFree is the disk space that fetching leaves free, if the store knows it. Default 10 GiB;
	// negative: no limit.
	MinFree drive.ByteSize
	// Documents reads the documents of the intake. nil: exports of documents are refused.
	Documents Documents
	// Drive writes zips into the drive. nil: such jobs are refused.
	Drive DriveUploads
	// Events receives an event for each sealed, failed, late or soon expiring batch, in the same
	// transaction. nil: no events.
	Events stream.Publisher
	// Bucket receives zips as objects. nil: such jobs are refused.
	Bucket Bucket
	// Clock returns the time shared by all instances. Default: the database clock.
	Clock func(ctx context.Context) (drive.Time, error)
	// RetentionClock returns the time that decides whether a retention period is over; see package
	// retention. Default: Clock.
	RetentionClock func() time.Time
	Log            *slog.Logger
}

// Intervals and limits of the workers.
const (
	pollEvery  = 10 * time.Second    // mean interval between polls for work
	perMachine = 2                   // concurrent batches and jobs per machine
	pageSize   = 100                 // entries between two save points
	parallel   = 8                   // concurrent fetches of one batch
	maxTries   = 3                   // failed tries before remaining entries fail
	maxHeld    = 50                  // batches with references per account
	keepRows   = 30 * 24 * time.Hour // retention of ended batches and unused turns
)

// sendMemory limits all zips that are being sent: 8 at full speed, or 48 with few bytes each. Jobs,
// of which at most perMachine run, are not counted.
const sendMemory = 96 * drive.MiB

// Exports manages all batches. It is the only entry point of the package and safe for concurrent
// use.
type Exports struct {
	*core

	lists     *listStore
	creator   *creator
	calendar  *calendar
	catalog   *catalog
	queue     *queue
	collector *collector
	releaser  *releaser
	sender    *sender
	archives  *archiveStore
	links     *linkStore
	publisher *publisher
	jobs      *jobRunner
	workers   *workerPool

	reading atomic.Int64 // bytes of lists being read; see LimitBody
}

// core is shared by all types of the package: options, database, clocks and counters.
type core struct {
	opt        Options
	log        *slog.Logger
	counters   Counters
	wake       chan struct{}
	testHook   func(step string)         // called at each step of a worker; set by tests
	listPage   int                       // page size of folder listings: folderPage, less in tests
	lastOutage atomic.Pointer[time.Time] // time of the last database outage seen by this process; nil: none
}

// New returns an Exports on opt.DB, with defaults for the zero fields of opt. It does no I/O and
// starts no goroutine; Run does the work.
func New(opt Options) *Exports {
	if opt.Instance == "" {
		opt.Instance = "1"
	}
	if opt.Machine == "" {
		opt.Machine = "local"
	}
	if opt.CheckInstance == nil {
		opt.CheckInstance = func(context.Context, *sqldb.Tx) error { return nil }
	}
	if opt.MaxEntries == 0 {
		opt.MaxEntries = 10_000
	}
	if opt.MaxSize == 0 {
		opt.MaxSize = 256 * drive.GiB
	}
	if opt.Lifetime == 0 {
		opt.Lifetime = 7 * 24 * time.Hour
	}
	if opt.LateAfter == 0 {
		opt.LateAfter = time.Hour
	}
	if opt.MinFree == 0 {
		opt.MinFree = 10 * drive.GiB
	}
	if opt.Clock == nil {
		opt.Clock = opt.DB.Now
	}
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return compose(&core{opt: opt, log: opt.Log, wake: make(chan struct{}, 1), testHook: func(string) {}, listPage: folderPage})
}

// compose constructs all types of the package on the shared core g.
func compose(g *core) *Exports {
	e := &Exports{core: g}
	e.lists = &listStore{core: g, turns: turn.New(1, maxLayouts)}
	e.creator = &creator{core: g, lists: e.lists}
	e.calendar = &calendar{core: g, creator: e.creator, reading: &e.reading}
	e.catalog = &catalog{core: g}
	e.queue = &queue{core: g}
	e.sender = &sender{core: g, budget: zipline.NewBudget(sendMemory), turns: turn.New(1, maxLayouts), directMost: directMost}
	e.archives = &archiveStore{core: g, sender: e.sender}
	e.links = &linkStore{core: g, sender: e.sender}
	e.publisher = &publisher{core: g, sender: e.sender, minPart: firstBucketPart}
	e.jobs = &jobRunner{core: g, catalog: e.catalog, queue: e.queue, sender: e.sender, publisher: e.publisher}
	e.releaser = &releaser{core: g, publisher: e.publisher, sender: e.sender}
	e.collector = &collector{core: g, lists: e.lists, releaser: e.releaser, publisher: e.publisher, fetch: fetch.New(g.opt.Fetch), slowAge: slowAge}
	e.workers = &workerPool{
		core: g, calendar: e.calendar, queue: e.queue, collector: e.collector, releaser: e.releaser, jobs: e.jobs,
		slots: make(chan struct{}, perMachine),
	}
	return e
}

// MaxList returns the largest number of entries that one request may have. A list with more entries
// than one zip may have is split into several batches.
func (c *core) MaxList() int { return maxParts * c.opt.MaxEntries }

// now returns the time of the shared clock, which is the database's unless a test sets another. It
// fails if the query does.
func (c *core) now(ctx context.Context) (drive.Time, error) {
	now, err := c.opt.Clock(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the database for the time: %w", c.noteOutage(err))
	}
	return now, nil
}

// retentionNow returns the time by which retention periods are measured. It fails only if there is
// no retention clock and the shared clock fails.
func (c *core) retentionNow(ctx context.Context) (drive.Time, error) {
	if c.opt.RetentionClock == nil {
		return c.now(ctx)
	}
	return drive.TimeOf(c.opt.RetentionClock()), nil
}

// State is the state of a batch; see the package comment.
type State string

// States of a batch.
const (
	Pending   State = "pending"
	Running   State = "running"
	Sealed    State = "sealed"
	Aborted   State = "aborted"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Expired   State = "expired"
)

// Origin is how a batch was created.
type Origin string

// Origins of a batch.
const (
	Manual     Origin = "manual"
	Scheduled  Origin = "schedule"
	Supplement Origin = "supplement"
)

// batch is a row of exports, joined with its row of export_parts.
type batch struct {
	ID       drive.ExportID
	Account  drive.AccountID
	User     drive.UserID
	Name     string
	Origin   Origin
	Request  string         // storedRequest as JSON
	Slot     string         // unique key; of a schedule: schedule and month
	Root     drive.ExportID // first batch of its revisions; itself if it is the first
	Revision int64
	Parent   drive.ExportID // previous revision of a supplement; zero: none
	Priority int64
	State    State

	Total, Collected, Failed int64
	Bytes                    drive.ByteSize // size of the collected entries
	SavePoint                int64          // entries up to this number need no more work in this try

	Epoch       int64      // fencing token: incremented by each claim and each end
	Worker      string     // instance that claimed it last
	Machine     string     // machine that claimed it last
	Due         drive.Time // when it can be claimed; running: end of the lease; sealed: time of the ending event
	YieldAt     drive.Time // when another worker asked it to yield; 0: not asked
	Avoid       string     // machine that must not claim it before AvoidUntil
	AvoidUntil  drive.Time
	Tries       int64      // failed tries
	Handovers   int64      // times it was asked for as a slow batch
	ClaimedAt   drive.Time // start of the current claim
	ClaimedDone int64      // Collected + Failed at the start of the claim
	Error       string     // reason shown to the owner

	Size      drive.ByteSize
	ETag      string
	ListEpoch int64 // epoch under which the frozen list is stored
	Created   drive.Time
	Begun     drive.Time // first claim
	Ended     drive.Time // sealed, failed or cancelled; 0: not yet
	Expires   drive.Time // when a sealed batch ends
	Released  drive.Time // when its references were released; 0: not yet

	part
}

// columns are the columns of exports that batch.insert writes and scanBatch reads.
const columns = `id, account_id, user_id, name, origin, request, slot, root_id, revision, parent_id, priority, state, total, collected, failed,
	bytes, save_point, epoch, worker, machine, due_at, yield_at, avoid, avoid_until, tries, handovers, claimed_at, claimed_done, error, size,
	etag, list_epoch, created_at, begun_at, ended_at, expires_at, released_at`

// selectViews selects batches for a listing, with empty stored requests: those of one page may take
// megabytes.
var selectViews = strings.Replace(selectBatches, " request,", " '',", 1)

// selectBatches selects batches with their set for scanBatch; a batch without a set is part 1 of 1.
const selectBatches = "SELECT " + columns + ", COALESCE(set_id, id), COALESCE(part, 1), COALESCE(parts, 1) FROM exports LEFT JOIN export_parts ON export_id = id "

// scanBatch reads a row of batch columns into b by calling scan, and returns the error of scan.
func scanBatch(b *batch, scan func(...any) error) error {
	return scan(&b.ID, &b.Account, &b.User, &b.Name, &b.Origin, &b.Request, &b.Slot, &b.Root, &b.Revision, &b.Parent, &b.Priority, &b.State,
		&b.Total, &b.Collected, &b.Failed, &b.Bytes, &b.SavePoint, &b.Epoch, &b.Worker, &b.Machine, &b.Due, &b.YieldAt, &b.Avoid, &b.AvoidUntil,
		&b.Tries, &b.Handovers, &b.ClaimedAt, &b.ClaimedDone, &b.Error, &b.Size, &b.ETag, &b.ListEpoch, &b.Created, &b.Begun, &b.Ended,
		&b.Expires, &b.Released, &b.Set, &b.Part, &b.Parts)
}

// find returns the first batch that matches where, the end of a SELECT on exports, or NotFound.
// where may lock the row if q is a transaction.
func (c *core) find(ctx context.Context, q sqldb.Querier, where string, args ...any) (b batch, err error) {
	err = scanBatch(&b, q.QueryRow(ctx, selectBatches+where, args...).Scan)
	return b, err
}

// View is a batch as shown to its owner.
type View struct {
	ID       drive.ExportID  `json:"id"`
	Name     string          `json:"name" doc:"name of the directory in the zip"`
	Origin   Origin          `json:"origin" enum:"manual,schedule,supplement"`
	Root     drive.ExportID  `json:"root" doc:"the first export of which this is a revision; its own id for the first"`
	Revision int64           `json:"revision"`
	Set      drive.ExportID  `json:"set" doc:"the first part, if the list was split into several zips; else its own id"`
	Part     int64           `json:"part" doc:"number of this part, from 1"`
	Parts    int64           `json:"parts" doc:"number of parts; 1: not split"`
	Request  json.RawMessage `json:"request,omitempty" doc:"the request; absent in lists"`
	State    State           `json:"state" enum:"pending,running,sealed,aborted,failed,cancelled,expired"`
	Priority int64           `json:"priority"`

	Total     int64          `json:"total" doc:"number of requested entries"`
	Collected int64          `json:"collected"`
	Failed    int64          `json:"failed"`
	Bytes     drive.ByteSize `json:"bytes" doc:"bytes of the collected documents"`
	Rate      float64        `json:"rate" doc:"entries per second, while the export runs"`
	ETA       *int64         `json:"eta" nullable:"true" doc:"estimated seconds until the end, while the export runs"`
	Error     string         `json:"error,omitempty" doc:"code of the error that the export waits for, was aborted or failed with; of a sealed export: damaged"`
	Size      drive.ByteSize `json:"size" doc:"size of the zip in bytes; 0 until the export is sealed"`
	ETag      string         `json:"etag,omitempty"`

	CreatedAt drive.Time  `json:"created_at"`
	BegunAt   *drive.Time `json:"begun_at" nullable:"true"`
	EndedAt   *drive.Time `json:"ended_at" nullable:"true"`
	ExpiresAt *drive.Time `json:"expires_at" nullable:"true"`
	Joined    bool        `json:"joined,omitempty" doc:"true: the request returned an existing export of the same folder and month"`
}

// view converts the row for its owner at the time now. A sealed batch whose expiry has passed is
// shown as Expired; rate and ETA are set only while it is running.
func (b batch) view(now drive.Time) View {
	v := View{
		ID: b.ID, Name: b.Name, Origin: b.Origin, Root: b.Root, Revision: b.Revision, Set: b.Set, Part: b.Part, Parts: b.Parts, Request: json.RawMessage(b.Request), State: b.State,
		Priority: b.Priority, Total: b.Total, Collected: b.Collected, Failed: b.Failed, Bytes: b.Bytes, Error: b.Error, Size: b.Size,
		ETag: b.ETag, CreatedAt: b.Created, BegunAt: maybe(b.Begun), EndedAt: maybe(b.Ended), ExpiresAt: maybe(b.Expires),
	}
	if b.State == Sealed && b.Expires <= now {
		v.State = Expired
	}
	if b.State == Running {
		if v.Rate = b.rate(now); v.Rate > 0 {
			left := int64(float64(b.Total-b.Collected-b.Failed) / v.Rate)
			v.ETA = &left
		}
	}
	return v
}

// rate returns the entries collected or failed per second since the current claim.
func (b batch) rate(now drive.Time) float64 {
	worked := now.Sub(b.ClaimedAt).Seconds()
	if worked <= 0 {
		return 0
	}
	return float64(b.Collected+b.Failed-b.ClaimedDone) / worked
}

// maybe returns a pointer to t, or nil if t is zero.
func maybe(t drive.Time) *drive.Time {
	if t == 0 {
		return nil
	}
	return &t
}

// Hook runs at the end of the transaction that creates a batch, for example to commit an
// idempotency key with it. A nil Hook is skipped. An error rolls the transaction back and is
// returned.
type Hook func(ctx context.Context, tx *sqldb.Tx, v View) error

// IsWriting reports whether this process is writing the named file to the store now. Such a file
// has no row in the database yet, so the auditor must not delete it as an orphan.
func (e *Exports) IsWriting(file string) bool {
	_, ok := e.collector.writing.Load(file)
	return ok
}
