package export

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/account"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/stream"
	"smartdrive/internal/engine/turn"
	"smartdrive/internal/export/fetch"
	"smartdrive/internal/export/zipline"
)

// Options configure New. DB, Tree, Store, Secret and Users are required; the zero value of each
// other field is its default.
type Options struct {
	DB      *sqldb.DB
	Tree    *tree.Tree
	Store   blob.Store
	Content content.Content
	Ledger  quota.Ledger
	// Secret returns the installation's secret for links; what is signed here is signed with a key
	// made of it.
	Secret func(ctx context.Context) ([]byte, error)
	Users  *account.Users

	Instance   string // of this process, unlike that of any other start; default "1"
	Machine    string // that counts as one for the limit of two; default "local"
	Generation int64  // of this start: names what is fetched, as whole-file requests do
	// Hold proves in a transaction that this instance was not declared ended. Default: it cannot
	// be.
	Hold func(ctx context.Context, tx *sqldb.Tx) error

	MaxEntries int // of a batch; default 10,000. A longer list becomes several
	// MaxSize is how large the files of a batch may be together when it is made; default 256 GiB.
	// More become several.
	MaxSize drive.ByteSize
	Life    time.Duration // of a sealed batch; default 7 d
	Late    time.Duration // a batch that runs for longer is late, and its owner is told; default 1 h
	Fetch   fetch.Options // Hosts empty: nothing is fetched
	// MinFree is the room that fetching leaves at the store, where that can say. Default 10 GiB;
	// negative: none.
	MinFree drive.ByteSize
	// Documents are those that were taken in. nil: there are none.
	Documents Documents
	// Drive writes a zip into the drive. nil: it cannot be written there.
	Drive Drive
	// Events gets a record of each batch that is sealed, in its transaction. nil: nobody is told.
	Events stream.Publisher
	// Bucket is where zips may be published, too. nil: nowhere.
	Bucket Bucket
	// Clock is the one that all instances share. Default: the database's.
	Clock func(ctx context.Context) (drive.Time, error)
	// Kept is the clock that says for how long something was kept before it is deleted; see package
	// retention. Default: Clock.
	Kept func() time.Time
	Log  *slog.Logger
}

// The times and numbers of the work.
const (
	pollEvery  = 10 * time.Second // between two looks for work
	perMachine = 2                // batches that a machine works on
	pageSize   = 100              // entries between two save points
	parallel   = 8                // documents that are fetched at once for a batch
	maxTries   = 3                // aborts, then what is left counts as failed
	maxHeld    = 50               // batches of an account that hold something
	keepRows   = 30 * 24 * time.Hour
)

// memory is what all zips that are being sent may hold: 8 at full speed, or 48 of few bytes each.
// Jobs of workers, which are few (perMachine), have their own.
const memory = 96 * drive.MiB

// Exports is the set of batches, and the one way to them for heads and the program: each act is
// one line that calls its room. It is safe for concurrent use.
type Exports struct {
	*ground

	lists      *lists
	orders     *orders
	calendar   *calendar
	catalog    *catalog
	queue      *queue
	collector  *collector
	releases   *releases
	sender     *sender
	selections *selections
	links      *links
	publisher  *publisher
	courier    *courier
	workers    *workers

	reading atomic.Int64 // bytes of lists that are being read: see Incoming
}

// ground is what every room stands on: options, database, clocks, and what this process counts.
type ground struct {
	opt      Options
	log      *slog.Logger
	counters Counters
	wake     chan struct{}
	halt     func(step string)         // of tests: called at each step of a worker
	listPage int                       // folderPage; of tests
	away     atomic.Pointer[time.Time] // when the database last did not answer, by this process; nil: it always did
}

// New returns the batches of a database. It does no I/O.
func New(opt Options) *Exports {
	if opt.Instance == "" {
		opt.Instance = "1"
	}
	if opt.Machine == "" {
		opt.Machine = "local"
	}
	if opt.Hold == nil {
		opt.Hold = func(context.Context, *sqldb.Tx) error { return nil }
	}
	if opt.MaxEntries == 0 {
		opt.MaxEntries = 10_000
	}
	if opt.MaxSize == 0 {
		opt.MaxSize = 256 * drive.GiB
	}
	if opt.Life == 0 {
		opt.Life = 7 * 24 * time.Hour
	}
	if opt.Late == 0 {
		opt.Late = time.Hour
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
	return compose(&ground{opt: opt, log: opt.Log, wake: make(chan struct{}, 1), halt: func(string) {}, listPage: folderPage})
}

// compose makes the rooms, each after those that it needs.
func compose(g *ground) *Exports {
	e := &Exports{ground: g}
	e.lists = &lists{ground: g, making: turn.New(1, atWork)}
	e.orders = &orders{ground: g, lists: e.lists}
	e.calendar = &calendar{ground: g, orders: e.orders}
	e.catalog = &catalog{ground: g}
	e.queue = &queue{ground: g}
	e.sender = &sender{ground: g, windows: zipline.NewBudget(memory), laying: turn.New(1, atWork), directMost: directMost}
	e.selections = &selections{ground: g, sender: e.sender}
	e.links = &links{ground: g, sender: e.sender}
	e.publisher = &publisher{ground: g, sender: e.sender, leastPart: firstBucketPart}
	e.courier = &courier{ground: g, catalog: e.catalog, queue: e.queue, sender: e.sender, publisher: e.publisher}
	e.releases = &releases{ground: g, publisher: e.publisher, sender: e.sender}
	e.collector = &collector{ground: g, lists: e.lists, releases: e.releases, publisher: e.publisher, fetch: fetch.New(g.opt.Fetch), slowAge: slowAge}
	e.workers = &workers{
		ground: g, calendar: e.calendar, queue: e.queue, collector: e.collector, releases: e.releases, courier: e.courier,
		slots: make(chan struct{}, perMachine),
	}
	return e
}

// MaxList is how many entries a list may have: one that is longer than a zip may be is split.
func (g *ground) MaxList() int { return maxParts * g.opt.MaxEntries }

func (g *ground) now(ctx context.Context) (drive.Time, error) {
	now, err := g.opt.Clock(ctx)
	if err != nil {
		return 0, fmt.Errorf("ask the database for the time: %w", g.answered(err))
	}
	return now, nil
}

// kept is the time by which batches and their rows have been kept for long enough.
func (g *ground) kept(ctx context.Context) (drive.Time, error) {
	if g.opt.Kept == nil {
		return g.now(ctx)
	}
	return drive.TimeOf(g.opt.Kept()), nil
}

// State is how a batch stands.
type State string

// The states; see the package comment.
const (
	Pending   State = "pending"
	Running   State = "running"
	Sealed    State = "sealed"
	Aborted   State = "aborted"
	Failed    State = "failed"
	Cancelled State = "cancelled"
	Expired   State = "expired"
)

// Origin says where a batch comes from.
type Origin string

// The origins.
const (
	Manual     Origin = "manual"
	Scheduled  Origin = "schedule"
	Supplement Origin = "supplement"
)

// batch is the row.
type batch struct {
	ID       drive.ExportID
	Account  drive.AccountID
	User     drive.UserID
	Name     string
	Origin   Origin
	Request  string
	Slot     string
	Root     drive.ExportID
	Revision int64
	Parent   drive.ExportID
	Priority int64
	State    State

	Total, Collected, Failed int64
	Bytes                    drive.ByteSize
	SavePoint                int64

	Epoch       int64
	Worker      string
	Machine     string
	Due         drive.Time
	YieldAt     drive.Time
	Avoid       string
	AvoidUntil  drive.Time
	Tries       int64
	Handovers   int64
	ClaimedAt   drive.Time
	ClaimedDone int64
	Error       string

	Size      drive.ByteSize
	ETag      string
	ListEpoch int64
	Created   drive.Time
	Begun     drive.Time
	Ended     drive.Time
	Expires   drive.Time
	Released  drive.Time

	part
}

const columns = `id, account_id, user_id, name, origin, request, slot, root_id, revision, parent_id, priority, state, total, collected, failed,
	bytes, save_point, epoch, worker, machine, due_at, yield_at, avoid, avoid_until, tries, handovers, claimed_at, claimed_done, error, size,
	etag, list_epoch, created_at, begun_at, ended_at, expires_at, released_at`

// selectViews is selectBatches without what was asked for: that of a page of batches may be
// megabytes.
var selectViews = strings.Replace(selectBatches, " request,", " '',", 1)

const selectBatches = "SELECT " + columns + ", COALESCE(set_id, id), COALESCE(part, 1), COALESCE(parts, 1) FROM exports LEFT JOIN export_parts ON export_id = id "

func scanBatch(b *batch, scan func(...any) error) error {
	return scan(&b.ID, &b.Account, &b.User, &b.Name, &b.Origin, &b.Request, &b.Slot, &b.Root, &b.Revision, &b.Parent, &b.Priority, &b.State,
		&b.Total, &b.Collected, &b.Failed, &b.Bytes, &b.SavePoint, &b.Epoch, &b.Worker, &b.Machine, &b.Due, &b.YieldAt, &b.Avoid, &b.AvoidUntil,
		&b.Tries, &b.Handovers, &b.ClaimedAt, &b.ClaimedDone, &b.Error, &b.Size, &b.ETag, &b.ListEpoch, &b.Created, &b.Begun, &b.Ended,
		&b.Expires, &b.Released, &b.Set, &b.Part, &b.Parts)
}

func (g *ground) find(ctx context.Context, q sqldb.Querier, where string, args ...any) (b batch, err error) {
	err = scanBatch(&b, q.QueryRow(ctx, selectBatches+where, args...).Scan)
	return b, err
}

// View is a batch as its owner sees it.
type View struct {
	ID       drive.ExportID  `json:"id"`
	Name     string          `json:"name" doc:"of the directory in the zip"`
	Origin   Origin          `json:"origin" enum:"manual,schedule,supplement"`
	Root     drive.ExportID  `json:"root" doc:"the batch that this is a revision of; itself if it is the first"`
	Revision int64           `json:"revision"`
	Set      drive.ExportID  `json:"set" doc:"of a list that is too long for one zip: the first part of it; else itself"`
	Part     int64           `json:"part" doc:"which part, from 1"`
	Parts    int64           `json:"parts" doc:"how many there are; 1: it is not split"`
	Request  json.RawMessage `json:"request,omitempty" doc:"what was asked for; absent in lists"`
	State    State           `json:"state" enum:"pending,running,sealed,aborted,failed,cancelled,expired"`
	Priority int64           `json:"priority"`

	Total     int64          `json:"total" doc:"entries asked for"`
	Collected int64          `json:"collected"`
	Failed    int64          `json:"failed"`
	Bytes     drive.ByteSize `json:"bytes" doc:"of the collected"`
	Rate      float64        `json:"rate" doc:"entries a second, while it runs"`
	ETA       *int64         `json:"eta" nullable:"true" doc:"seconds, while it runs"`
	Error     string         `json:"error,omitempty" doc:"why it waits, was aborted or has failed; of a sealed one: damaged"`
	Size      drive.ByteSize `json:"size" doc:"of the zip in bytes; 0 until it is sealed"`
	ETag      string         `json:"etag,omitempty"`

	CreatedAt drive.Time  `json:"created_at"`
	BegunAt   *drive.Time `json:"begun_at" nullable:"true"`
	EndedAt   *drive.Time `json:"ended_at" nullable:"true"`
	ExpiresAt *drive.Time `json:"expires_at" nullable:"true"`
	Joined    bool        `json:"joined,omitempty" doc:"of an answer to a request: there was an export of the same folder and month, and this is it"`
}

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

// rate is how many entries a second its worker has dealt with.
func (b batch) rate(now drive.Time) float64 {
	worked := now.Sub(b.ClaimedAt).Seconds()
	if worked <= 0 {
		return 0
	}
	return float64(b.Collected+b.Failed-b.ClaimedDone) / worked
}

func maybe(t drive.Time) *drive.Time {
	if t == 0 {
		return nil
	}
	return &t
}

// Hook runs at the end of the transaction that makes a batch, so that an idempotency key commits
// with it. Nil does nothing; an error undoes all.
type Hook func(ctx context.Context, tx *sqldb.Tx, v View) error

// Putting reports whether this process is writing a file of that name just now: the auditor leaves
// it alone.
func (e *Exports) Putting(file string) bool {
	_, ok := e.collector.putting.Load(file)
	return ok
}
