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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/timer"
)

// Timers is what an audit needs of the delayed task engine.
type Timers interface {
	Show(ctx context.Context, key timer.Key) (timer.State, error)
	Arm(ctx context.Context, entries ...timer.Entry) error
}

// Parts that an Checker is put together from.
type Parts struct {
	DB      *sqldb.DB
	Staging blob.Staging
	Store   blob.Store
	Content content.Content
	// Timers is nil where no engine runs: timers are not looked at then.
	Timers Timers
	// Armed reports whether the timers of all uploads were armed after the start; until then they
	// are not looked at. nil: they were.
	Armed func() bool
	// Putting reports whether this process is writing a file of that name now; see
	// upload.Sessions.Putting. nil: it writes none.
	Putting func(file string) bool
	// Quarantine is where Store and Staging move strays to; nil: it cannot be listed.
	Quarantine blob.Quarantine
	// Kept is the clock that says how long findings were kept, see package retention; nil: the wall
	// clock.
	Kept func() time.Time
	// Home fails unless the contents are where they were: what a file system that is not mounted
	// lacks is not lost. nil: they are.
	Home func(ctx context.Context) error
	// Generation is the installation's at this start.
	Generation int64

	// Of installations with several instances; nil: this process is the only one.

	// Ended reports whether the instance of that start has ended for good, and ends it if it is
	// dead: it will write nothing more.
	Ended func(ctx context.Context, generation int64) (bool, error)
	// Since is when the oldest instance that has not ended began, by the database's clock; zero:
	// nobody else is there.
	Since func(ctx context.Context) (drive.Time, error)
}

// home fails where what a pass compares with the rows is not this installation's.
func (p *Parts) home(ctx context.Context) error {
	if p.Home == nil {
		return nil
	}
	return p.Home(ctx)
}

// Options are what an operator may set. The zero value of each field is its default.
type Options struct {
	Every  time.Duration  // pause between two passes in the background; default 6 h
	First  time.Duration  // pause before the first; default 10 min
	Share  float64        // of the time, how much a pass in the background may work; default 0.05
	Scrub  time.Duration  // every blob is read again at least so often, in the background; zero: never
	Rate   drive.ByteSize // bytes a second that this may read; default 32 MiB
	Save   time.Duration  // how long after a save point the next one is written; default 1 min
	Settle time.Duration  // how long until a suspicion is looked at again; default 5 s
	Now    func() time.Time
	Sleep  func(ctx context.Context, d time.Duration) error
	Log    *slog.Logger
}

func (o Options) withDefaults() Options {
	setDefault(&o.Every, 6*time.Hour)
	setDefault(&o.First, 10*time.Minute)
	setDefault(&o.Share, 0.05)
	setDefault(&o.Rate, 32*drive.MiB)
	setDefault(&o.Save, time.Minute)
	setDefault(&o.Settle, 5*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	o.Log = cmp.Or(o.Log, slog.Default())
	return o
}

func setDefault[T comparable](field *T, def T) {
	var zero T
	if *field == zero {
		*field = def
	}
}

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

// Checker checks an installation. It is safe for concurrent use; one pass runs at a time.
type Checker struct {
	Parts
	Counters Counters

	opt     Options
	born    drive.UploadID // made first: an upload that this process has begun since has a greater id
	turn    chan struct{}  // holds one token; whoever has it runs a pass
	suspect chan struct{}  // holds a token while a check of the database is asked for
	waiting atomic.Int32   // administrators who wait for a pass in the background to step aside
	limit   *rate.Limiter
}

// Counters count what was done since the start.
type Counters struct {
	Passes      atomic.Int64 // that came to their end
	Findings    atomic.Int64
	Repaired    atomic.Int64
	Removed     atomic.Int64 // staged directories and files that were deleted
	Quarantined atomic.Int64
	Damaged     atomic.Int64 // blobs found missing or changed
	Scrubbed    atomic.Int64 // bytes read to compare digests
	CleanAt     atomic.Int64 // drive.Time of the last pass without a finding that stays
	Pages       atomic.Int64 // what the last check of the pages of the database has found; 0: nothing
	PagesAt     atomic.Int64 // drive.Time of that check; 0: there was none
}

// New puts an Checker together. It must be called before the first upload of this process begins;
// nothing runs until Check or Run is called.
func New(parts Parts, opt Options) *Checker {
	a := &Checker{Parts: parts, opt: opt.withDefaults(), born: drive.NewID[drive.UploadID](), turn: make(chan struct{}, 1), suspect: make(chan struct{}, 1)}
	a.limit = rate.NewLimiter(rate.Limit(a.opt.Rate), int(max(content.ReadBuffer, a.opt.Rate)))
	a.turn <- struct{}{}
	return a
}

func (a *Checker) now() drive.Time { return drive.TimeOf(a.opt.Now()) }

// kept is the time by which findings have been kept for long enough.
func (a *Checker) kept() drive.Time {
	if a.Kept == nil {
		return a.now()
	}
	return drive.TimeOf(a.Kept())
}

// Scope says what a pass does.
type Scope struct {
	Repair bool `json:"repair"`
	Deep   bool `json:"deep"` // read all bytes again
}

// Check runs one pass to its end (fsck), at full speed. A pass in the background steps aside. The
// report is complete when the error is nil.
func (a *Checker) Check(ctx context.Context, scope Scope) (Report, error) {
	a.waiting.Add(1)
	defer a.waiting.Add(-1)
	if err := a.takeTurn(ctx); err != nil {
		return Report{}, err
	}
	defer a.giveTurn()
	return a.pass(ctx, scope, false)
}

func (a *Checker) takeTurn(ctx context.Context) error {
	select {
	case <-a.turn:
		return nil
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.Unavailable)
	}
}

func (a *Checker) giveTurn() { a.turn <- struct{}{} }

// errAside ends a pass in the background because an administrator waits.
var errAside = errors.New("stepped aside")

// Run audits in the background until ctx is done: a pass, then what is due to be read again, then a
// pause.
func (a *Checker) Run(ctx context.Context) error {
	for pause := a.opt.First; a.opt.Sleep(ctx, pause) == nil; {
		pause = a.opt.Every
		_, err := a.RunOnce(ctx)
		switch {
		case errors.Is(err, errAside):
			pause = time.Minute
		case err != nil && ctx.Err() == nil:
			a.opt.Log.ErrorContext(ctx, "audit", "error", err)
		}
	}
	return nil
}

// RunOnce is one round of Run. While a restored backup waits for its check, it repairs nothing.
func (a *Checker) RunOnce(ctx context.Context) (Report, error) {
	if err := a.takeTurn(ctx); err != nil {
		return Report{}, err
	}
	defer a.giveTurn()
	report, err := a.pass(ctx, Scope{Repair: true}, true)
	if err != nil || report.DatabaseDamaged {
		return report, err
	}
	return report, a.trim(ctx)
}

// maxSkew is how far the clocks of instances may be apart. What makes an id is a process, and what
// says how long it lives is the database.
const maxSkew = 10 * time.Minute

// oldest returns an id that is smaller than those of all uploads which a living process may be
// about to begin.
func (a *Checker) oldest(ctx context.Context) (id drive.UploadID, err error) {
	if a.Since == nil {
		return a.born, nil
	}
	since, err := a.Since(ctx)
	if err != nil {
		return id, fmt.Errorf("look for the oldest instance: %w", err)
	}
	if since == 0 {
		return a.born, nil
	}
	ms := uint64(since.Add(-maxSkew))
	for i := range 6 { // a UUIDv7 begins with 48 bits of Unix milliseconds (RFC 9562 §5.7)
		id[i] = byte(ms >> (40 - 8*i))
	}
	if id.String() > a.born.String() {
		return a.born, nil
	}
	return id, nil
}

// pass runs all checks. While the pages of the database are damaged it runs no other and repairs
// nothing: what the rows say cannot be relied on.
func (a *Checker) pass(ctx context.Context, scope Scope, background bool) (Report, error) {
	p := &pass{Checker: a, scope: scope, background: background}
	p.report = Report{Scope: scope, Started: a.now(), Findings: []Finding{}}
	if err := (pages{p}).check(ctx, scope.Deep); err != nil || p.report.DatabaseDamaged {
		p.report.Ended = a.now()
		return p.report, err
	}
	restored, err := Restored(ctx, a.DB)
	if err != nil {
		return p.report, err
	}
	p.keep, p.report.Restored = restored, restored
	if background && restored {
		p.scope.Repair, p.report.Scope.Repair = false, false
	}
	p.resumed, p.saved = time.Now(), time.Now()
	if background {
		if err := p.goOn(ctx); err != nil {
			return p.report, err
		}
	}
	if p.born, err = a.oldest(ctx); err != nil {
		return p.report, err
	}
	if err = p.run(ctx); err == nil && background {
		err = p.forgetPlace(ctx)
	}
	p.report.Ended = a.now()
	if err != nil {
		return p.report, fmt.Errorf("audit: %w", err)
	}
	p.report.Complete = true
	a.Counters.Passes.Add(1)
	if p.report.Clean() {
		a.Counters.CleanAt.Store(int64(a.now()))
	}
	return p.report, nil
}
