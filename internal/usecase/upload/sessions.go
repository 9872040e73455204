package upload

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/stream"
	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/usecase/upload/claim"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// Timers is the part of the timer engine that uploads use.
type Timers interface {
	// Arm makes the timers with the keys of entries durable, replacing earlier ones.
	Arm(ctx context.Context, entries ...timer.Entry) error
	// Touch postpones the timer that key names because its upload was active; it does not wait for
	// the database.
	Touch(key timer.Key)
	// Cancel removes the timer that key names, unless it was armed with a generation above gen.
	Cancel(ctx context.Context, key timer.Key, gen int64) error
}

// Publisher appends records to the outbox within the transaction of the change that they describe.
type Publisher interface {
	// Append inserts records within tx: they are published if tx commits. On an error the caller
	// must roll tx back.
	Append(ctx context.Context, tx *sqldb.Tx, records ...stream.Record) error
}

// Scope limits whose content an instant upload may link to. An instant upload links content that
// the server already has, instead of receiving it.
type Scope string

// The scopes of instant uploads.
const (
	ScopeInstance Scope = "instance" // any account's content
	ScopeUser     Scope = "user"     // only the account's own content
	ScopeOff      Scope = "off"      // no instant upload
)

// Options configure Sessions. A zero field selects its default.
type Options struct {
	Idle              time.Duration    // without activity for this long, an upload is parked; default 30 s
	Abandon           time.Duration    // without activity for this long, a parked upload is reclaimed; default 168 h
	MaxAge            time.Duration    // an open upload older than this is reclaimed; default 720 h
	MaxOpen           int              // open uploads per account; default 1,000
	PartSize          drive.ByteSize   // default 8 MiB
	MinFree           drive.ByteSize   // disk space that uploads leave free; default 1 GiB
	CheckDatabaseDisk func() error     // returns DiskFull if the database's disk has no room for uploads; default: always room
	InstantScope      func() Scope     // called for each upload; default ScopeInstance
	InstantMax        drive.ByteSize   // largest content of other accounts that is linked after a proof; default 64 GiB
	Generation        int64            // number of this start of the installation; part of the names of whole-file contents
	Restored          bool             // a restored backup is not checked yet: nothing is reclaimed
	SealWait          time.Duration    // how long Complete waits before it returns state "sealing"; default 10 s
	Now               func() time.Time // default time.Now
	RetentionClock    func() time.Time // retention clock, see package retention; nil: the clock of row timestamps
	Log               *slog.Logger

	// OnLockOrderViolation is called if locks are acquired against the order in locks.go, for
	// tests. nil: the order is not checked.
	OnLockOrderViolation func(what string)

	// The following are for installations with several instances; see shared.go.

	// RowClock returns the database's time, which row timestamps use. nil: Now.
	RowClock func(ctx context.Context) (drive.Time, error)
	// CheckInstance fails in a transaction of an instance that other instances have declared ended,
	// because they may have removed its unfinished work. Until the transaction ends, it
	// prevents them from declaring that. nil: there is only one instance.
	CheckInstance func(ctx context.Context, tx *sqldb.Tx) error
}

// withDefaults returns o with the fields set that have a default and are zero. RetentionClock,
// RowClock, CheckInstance and CheckDatabaseDisk stay nil.
func (o Options) withDefaults() Options {
	setDefault(&o.Idle, 30*time.Second)
	setDefault(&o.Abandon, 168*time.Hour)
	setDefault(&o.MaxAge, 720*time.Hour)
	setDefault(&o.MaxOpen, 1000)
	setDefault(&o.PartSize, 8*drive.MiB)
	setDefault(&o.MinFree, drive.GiB)
	setDefault(&o.SealWait, 10*time.Second)
	setDefault(&o.InstantMax, 64*drive.GiB)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.InstantScope == nil {
		o.InstantScope = func() Scope { return ScopeInstance }
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// setDefault sets field to def if it is zero.
func setDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// Dependencies are the services that Sessions uses.
type Dependencies struct {
	DB      *sqldb.DB
	Staging blob.Staging
	Store   blob.Store
	Tree    *tree.Tree
	Ledger  quota.Ledger
	Content content.Content
	Timers  Timers
	Events  Publisher
	Access  *access.Access // who may upload where; nil: a new one over DB

	inspect content.Inspector // set by New
}

// Sessions implements all uploads of the installation in this process. It is safe for concurrent
// use.
type Sessions struct {
	Dependencies

	opt  Options
	caps blob.Caps

	clocks  clocks
	sched   schedule
	holdoff holdoff
	resumes resumeLimiter
	disk    *disk.Reservations
	claims  *claim.Claims
	table   liveTable
	auth    *authorizer
	work    background

	transitions transitions
	placer      placer
	views       views
	hashers     hashers
	merger      merger

	receiver     *receiver
	appender     *appender
	sealer       *sealer
	creator      *creator
	concatenator *concatenator
	verifier     *answerVerifier
	smallFiles   *smallFiles
}

// New returns Sessions over the given services. It starts nothing: requests, timers and Recover do.
func New(parts Dependencies, opt Options) *Sessions {
	s := &Sessions{Dependencies: parts, opt: opt.withDefaults(), caps: parts.Staging.Caps()}
	s.clocks = clocks{process: s.opt.Now, database: s.opt.RowClock, retention: s.opt.RetentionClock}
	if s.Access == nil {
		s.Access = access.New(access.Options{DB: s.DB, Now: s.opt.Now})
	}
	s.inspect = content.Inspector{Content: s.Content, DB: s.DB, Store: s.Store, Log: s.opt.Log}
	s.opt.PartSize = max(s.opt.PartSize, leastPartSize(s.caps))
	s.compose()
	return s
}

// compose creates the components of s from its dependencies, options and capabilities, in the order
// of their dependencies on each other. New calls it once; it starts no goroutine.
func (s *Sessions) compose() {
	shared, log := s.caps.Shared, s.opt.Log
	s.holdoff = holdoff{
		db: s.DB, clocks: s.clocks, restored: s.opt.Restored, length: min(reclaimHold, s.opt.Abandon), ready: s.clocks.now(),
	}
	s.sched = schedule{queue: s.Timers, idleAfter: s.opt.Idle, abandonAfter: s.opt.Abandon, maxAgeLimit: s.opt.MaxAge, holdoff: &s.holdoff, log: log}
	s.resumes = resumeLimiter{limit: rate.Limit(20), burst: 200, all: map[drive.AccountID]*rate.Limiter{}}
	s.disk = disk.New(s.Store, s.opt.MinFree, s.opt.CheckDatabaseDisk)
	s.claims = claim.New(s.inspect, claim.Options{
		Disabled: func() bool { return s.opt.InstantScope() == ScopeOff },
		OwnOnly:  func() bool { return s.opt.InstantScope() == ScopeUser }, MaxSize: s.opt.InstantMax, Now: s.clocks.now,
	})
	s.auth = &authorizer{db: s.DB, access: s.Access, tree: s.Tree, now: s.clocks.now, log: log, reclaim: s.reclaim}
	s.table = liveTable{
		db: s.DB, staging: s.Staging, disk: s.disk, shared: shared, auth: s.auth, order: newLockOrder(s.opt.OnLockOrderViolation), all: map[drive.UploadID]*liveUpload{},
	}
	if shared {
		s.table.evictAfter, s.table.now = unusedIdles*s.opt.Idle, s.clocks.now
	}
	s.placer = placer{db: s.DB, tree: s.Tree, content: s.Content, ledger: s.Ledger, events: s.Events, clocks: s.clocks}
	s.transitions = transitions{db: s.DB, ledger: s.Ledger, staging: s.Staging, store: s.Store, sched: &s.sched, alive: s.opt.CheckInstance, emit: s.placer.emitTransition, log: log}
	s.verifier = &answerVerifier{sessions: s, running: map[drive.UploadID]bool{}}
	s.views = views{db: s.DB, tree: s.Tree, staging: s.Staging, table: &s.table, sched: &s.sched, clocks: s.clocks, shared: shared, verifier: s.verifier}
	s.hashers = hashers{staging: s.Staging, shared: shared, table: &s.table, work: &s.work}
	s.merger = merger{db: s.DB, staging: s.Staging, removeContent: s.transitions.removeContent, restored: s.opt.Restored, log: log}
	s.receiver = &receiver{
		table: &s.table, db: s.DB, ledger: s.Ledger, staging: s.Staging, disk: s.disk, sched: &s.sched, hashers: &s.hashers,
		now: s.clocks.now, touchEvery: s.opt.Idle / 4, shared: shared, makeReady: s.makeReady,
	}
	s.appender = &appender{
		table: &s.table, db: s.DB, staging: s.Staging, receiver: s.receiver, transitions: &s.transitions, sched: &s.sched,
		now: s.clocks.now, shared: shared, log: log, makeReady: s.makeReady,
	}
	s.sealer = &sealer{
		db: s.DB, tree: s.Tree, ledger: s.Ledger, content: s.Content, inspect: s.inspect, staging: s.Staging, table: &s.table, sched: &s.sched, clocks: s.clocks,
		transitions: &s.transitions, placer: &s.placer, views: &s.views, hashers: &s.hashers, merger: &s.merger, disk: s.disk, work: &s.work,
		shared: shared, wait: s.opt.SealWait, log: log, closeTail: s.appender.closeTailAt, finishReclaim: s.finishReclaim,
	}
	s.creator = &creator{
		db: s.DB, ledger: s.Ledger, tree: s.Tree, content: s.Content, staging: s.Staging, disk: s.disk, table: &s.table, sched: &s.sched,
		clocks: s.clocks, claims: s.claims, placer: &s.placer, views: &s.views, auth: s.auth, checkAlive: s.transitions.checkAlive,
		maxOpen: s.opt.MaxOpen, partBytes: s.opt.PartSize, log: log,
	}
	s.concatenator = &concatenator{
		db: s.DB, ledger: s.Ledger, tree: s.Tree, staging: s.Staging, disk: s.disk, table: &s.table, sched: &s.sched, clocks: s.clocks,
		transitions: &s.transitions, placer: &s.placer, views: &s.views, creator: s.creator, sealer: s.sealer,
		readable: s.caps.ReadableParts, closeTail: s.appender.closeTailAt,
	}
	s.smallFiles = newSmallFiles(s.Dependencies, s.disk, s.opt.Generation, newCommitter(s.Dependencies, s.auth, s.transitions.checkAlive, s.placer.releaseDropped))
}

// Close interrupts running seals between two steps and waits for them; Recover resumes them after
// the next start. It returns nil.
func (s *Sessions) Close() error {
	s.work.close()
	return nil
}

// maxLimiters bounds the number of remembered rate limiters. Beyond it all are dropped, which only
// admits more resumes.
const maxLimiters = 10_000

// resumeLimiter limits the rate of resumes per account. It is safe for concurrent use.
type resumeLimiter struct {
	mu    sync.Mutex
	limit rate.Limit
	burst int
	all   map[drive.AccountID]*rate.Limiter
}

// allow counts a resume of an account at the time now. It returns Rate {retry_after} if there were
// too many, and nil otherwise.
func (l *resumeLimiter) allow(account drive.AccountID, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	lim := l.all[account]
	if lim == nil {
		if len(l.all) >= maxLimiters {
			clear(l.all)
		}
		lim = rate.NewLimiter(l.limit, l.burst)
		l.all[account] = lim
	}
	if !lim.AllowN(now, 1) {
		return drive.Fail(drive.Rate, "retry_after", 1)
	}
	return nil
}
