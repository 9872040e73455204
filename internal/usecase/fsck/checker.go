package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/timer"
)

// Timers is the part of the timer engine that a check needs.
type Timers interface {
	// Show returns the state of the timer that key names.
	Show(ctx context.Context, key timer.Key) (timer.State, error)
	// Arm makes the timers with the keys of entries durable, replacing earlier ones.
	Arm(ctx context.Context, entries ...timer.Entry) error
}

// Dependencies are the dependencies of a Checker.
type Dependencies struct {
	DB      *sqldb.DB
	Staging blob.Staging
	Store   blob.Store
	Content content.Content
	// Timers is nil if no engine runs; timers are then not checked.
	Timers Timers
	// TimersArmed reports whether the timers of all uploads were armed after the start. Before
	// that, timers are not checked. nil: always true.
	TimersArmed func() bool
	// IsWriting reports whether this process is writing the named file; see
	// upload.Sessions.IsWriting. nil: never.
	IsWriting func(file string) bool
	// Quarantine lists the items that Store and Staging moved there; nil: it cannot be listed.
	Quarantine blob.Quarantine
	// RetentionClock is the clock for the retention of findings; see package retention. nil: the
	// wall clock.
	RetentionClock func() time.Time
	// CheckMounted returns an error if the contents are not at their place, such as an unmounted
	// file system, whose files are not lost. nil: no check.
	CheckMounted func(ctx context.Context) error
	// Generation is the generation of this start.
	Generation int64

	// The next fields are for several instances; nil: this process is the only one.

	// Ended reports whether the instance of that generation has ended for good and will write
	// nothing more. It ends an instance that is dead.
	Ended func(ctx context.Context, generation int64) (bool, error)
	// OldestStart returns the start time of the oldest live instance by the database clock; zero:
	// there is no other instance.
	OldestStart func(ctx context.Context) (drive.Time, error)
}

// checkMounted returns the error of CheckMounted if the data directory is not mounted, so that
// nothing may be checked. It returns nil if CheckMounted is not set.
func (p *Dependencies) checkMounted(ctx context.Context) error {
	if p.CheckMounted == nil {
		return nil
	}
	return p.CheckMounted(ctx)
}

// Options configures New. A zero field selects its default.
type Options struct {
	Interval     time.Duration  // pause between two background passes; default 6 h
	FirstDelay   time.Duration  // pause before the first one; default 10 min
	Share        float64        // fraction of time that a background pass may work; default 0.05
	Scrub        time.Duration  // maximum time between two reads of a blob in the background; zero: never read
	Rate         drive.ByteSize // bytes per second read by the scrub; default 32 MiB
	SaveInterval time.Duration  // interval of save points; default 1 min
	RecheckDelay time.Duration  // delay before a suspicion is checked again; default 5 s
	Now          func() time.Time
	Sleep        func(ctx context.Context, d time.Duration) error
	Log          *slog.Logger
}

// withDefaults returns o with defaults for zero fields.
func (o Options) withDefaults() Options {
	setDefault(&o.Interval, 6*time.Hour)
	setDefault(&o.FirstDelay, 10*time.Minute)
	setDefault(&o.Share, 0.05)
	setDefault(&o.Rate, 32*drive.MiB)
	setDefault(&o.SaveInterval, time.Minute)
	setDefault(&o.RecheckDelay, 5*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

// setDefault sets a zero field to def.
func setDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

// sleep returns nil after d, or the error of ctx if ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Checker checks an installation. It is safe for concurrent use; only one pass runs at a time.
type Checker struct {
	Dependencies
	Counters Counters

	opt       Options
	firstID   drive.UploadID // created first: uploads begun by this process have greater ids
	passToken chan struct{}  // holds one token; its holder runs a pass
	pageCheck chan struct{}  // holds a token while a check of the database pages is requested
	waiting   atomic.Int32   // administrators waiting for the background pass to yield
	limit     *rate.Limiter
}

// Counters counts events in this process since its start.
type Counters struct {
	Passes      atomic.Int64 // completed passes
	Findings    atomic.Int64
	Repaired    atomic.Int64
	Removed     atomic.Int64 // deleted staged directories and files
	Quarantined atomic.Int64
	Damaged     atomic.Int64 // blobs found missing or damaged
	Scrubbed    atomic.Int64 // bytes read to verify digests
	CleanAt     atomic.Int64 // drive.Time of the last pass without unrepaired findings
	Pages       atomic.Int64 // damage found by the last check of the database pages; 0: none
	PagesAt     atomic.Int64 // drive.Time of that check; 0: never
}

// New returns a Checker. Call it before this process begins its first upload. Nothing runs before
// Check or Run.
func New(parts Dependencies, opt Options) *Checker {
	a := &Checker{Dependencies: parts, opt: opt.withDefaults(), firstID: drive.NewID[drive.UploadID](), passToken: make(chan struct{}, 1), pageCheck: make(chan struct{}, 1)}
	a.limit = rate.NewLimiter(rate.Limit(a.opt.Rate), int(max(content.ReadBuffer, a.opt.Rate)))
	a.passToken <- struct{}{}
	return a
}

// now returns the current time of Options.Now.
func (c *Checker) now() drive.Time { return drive.TimeOf(c.opt.Now()) }

// retentionNow returns the time by which the retention of findings is measured, from a clock that
// cannot jump if there is one.
func (c *Checker) retentionNow() drive.Time {
	if c.RetentionClock == nil {
		return c.now()
	}
	return drive.TimeOf(c.RetentionClock())
}

// Scope selects what a pass does besides checking rows and file sizes.
type Scope struct {
	Repair bool `json:"repair"`
	Deep   bool `json:"deep"` // verify the bytes of all contents
}

// Check runs one pass to its end at full speed, for an administrator (fsck). A running background
// pass yields. Without an error the report is complete, unless the database pages are damaged
// (Report.DatabaseDamaged): then nothing else was checked.
func (c *Checker) Check(ctx context.Context, scope Scope) (Report, error) {
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	if err := c.acquirePass(ctx); err != nil {
		return Report{}, err
	}
	defer c.releasePass()
	return c.pass(ctx, scope, false)
}

// acquirePass waits for the running pass of this process to end and prevents others. After nil the
// caller must call releasePass. If ctx ends first, it returns Unavailable.
func (c *Checker) acquirePass(ctx context.Context) error {
	select {
	case <-c.passToken:
		return nil
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

// releasePass lets the next pass run.
func (c *Checker) releasePass() { c.passToken <- struct{}{} }

// errYielded ends a background pass because an administrator waits.
var errYielded = errors.New("stepped aside")

// Run audits in the background until ctx ends, and then returns nil: a pass, overdue scrubs, a
// pause. A failed audit is logged; one that yielded to an administrator is continued after a
// minute.
func (c *Checker) Run(ctx context.Context) error {
	for pause := c.opt.FirstDelay; c.opt.Sleep(ctx, pause) == nil; {
		pause = c.opt.Interval
		_, err := c.RunOnce(ctx)
		switch {
		case errors.Is(err, errYielded):
			pause = time.Minute
		case err != nil && ctx.Err() == nil:
			c.opt.Log.ErrorContext(ctx, "the audit failed; the next one starts after the usual pause", "error", err)
		}
	}
	return nil
}

// RunOnce runs one background pass, from the save point of an interrupted one if there is any,
// repairs what it finds, stores the findings, and deletes old ones. It repairs nothing while a
// restored backup awaits its check. It returns errYielded if an administrator waits for a pass, and
// a report that is not complete if the database pages are damaged.
func (c *Checker) RunOnce(ctx context.Context) (Report, error) {
	if err := c.acquirePass(ctx); err != nil {
		return Report{}, err
	}
	defer c.releasePass()
	report, err := c.pass(ctx, Scope{Repair: true}, true)
	if err != nil || report.DatabaseDamaged {
		return report, err
	}
	return report, c.trim(ctx)
}

// maxSkew is the tolerated clock difference between instances: processes create ids by their own
// clocks, and the database clock determines how long they live.
const maxSkew = 10 * time.Minute

// oldest returns an id less than that of any upload that a live process may be about to begin.
func (c *Checker) oldest(ctx context.Context) (id drive.UploadID, err error) {
	if c.OldestStart == nil {
		return c.firstID, nil
	}
	since, err := c.OldestStart(ctx)
	if err != nil {
		return id, fmt.Errorf("look for the oldest instance: %w", err)
	}
	if since == 0 {
		return c.firstID, nil
	}
	ms := uint64(since.Add(-maxSkew))
	for i := range 6 { // a UUIDv7 begins with 48 bits of Unix milliseconds (RFC 9562 §5.7)
		id[i] = byte(ms >> (40 - 8*i))
	}
	if id.String() > c.firstID.String() {
		return c.firstID, nil
	}
	return id, nil
}

// pass runs all checks. If the database pages are damaged, it runs no other check and repairs
// nothing, because rows are unreliable.
func (c *Checker) pass(ctx context.Context, scope Scope, background bool) (Report, error) {
	p := &pass{Checker: c, scope: scope, background: background}
	p.report = Report{Scope: scope, Started: c.now(), Findings: []Finding{}}
	if err := (pages{p}).check(ctx, scope.Deep); err != nil || p.report.DatabaseDamaged {
		p.report.Ended = c.now()
		return p.report, err
	}
	restored, err := Restored(ctx, c.DB)
	if err != nil {
		return p.report, err
	}
	p.deleteNothing, p.report.Restored = restored, restored
	if background && restored {
		p.scope.Repair, p.report.Scope.Repair = false, false
	}
	p.workStart, p.saved = time.Now(), time.Now()
	if background {
		if err := p.resume(ctx); err != nil {
			return p.report, err
		}
	}
	if p.oldestID, err = c.oldest(ctx); err != nil {
		return p.report, err
	}
	if err = p.run(ctx); err == nil && background {
		err = p.clearPosition(ctx)
	}
	p.report.Ended = c.now()
	if err != nil {
		return p.report, fmt.Errorf("audit: %w", err)
	}
	p.report.Complete = true
	c.Counters.Passes.Add(1)
	if p.report.Clean() {
		c.Counters.CleanAt.Store(int64(c.now()))
	}
	return p.report, nil
}
