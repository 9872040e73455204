// Package trace records the steps of fired timers: armed, fired, published, consumed, applied, with
// times, across all instances (D7).
//
//	engine, dispatch ──Note──► waiting, in memory ──Flush, each second──► timer_steps ──Find──► people
//	                                                        └──► OTLP over HTTP, if configured
//
// Recording never blocks the work. Steps are buffered in memory and written together, and are
// dropped when too many wait. The unwritten steps of a process that dies are lost. Touches and
// cancellations of timers are not recorded.
package trace

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/timer"
)

const (
	flushEvery    = time.Second     // steps of one interval share a transaction
	flushTime     = 5 * time.Second // bound for the last flush when the process stops
	maxWaiting    = 4096            // steps in memory, about 200 bytes each; further ones are dropped
	rowsPerInsert = 100             // rows per INSERT
	maxShown      = 200             // latest steps of one timer that Find returns
	keepFor       = 72 * time.Hour  // long enough for a weekend
	maxRows       = 1_000_000       // about 150 MB with the index
	trimBatch     = 500             // rows per transaction
	maxQueued     = 16              // batches waiting for the collector
)

// Options configure New. DB is required; the zero value of every other field means its default.
type Options struct {
	DB       *sqldb.DB
	Instance string // name of this process
	Log      *slog.Logger
	Export   *OTLP // nil: no export
}

// Step is one step of a timer, as shown to administrators.
type Step struct {
	Gen      int64      `json:"gen"`
	Step     timer.Step `json:"step"`
	Began    drive.Time `json:"began"` // start of the stage that ends with the step
	At       drive.Time `json:"at"`
	Delivery int        `json:"delivery"`
	Instance string     `json:"instance"`
	Reason   string     `json:"reason,omitempty"` // code of the kind of an error
	Queued   QueueState // for fired only
}

// QueueState is the state of a timer in the queue when it fired.
type QueueState struct {
	PushBacks    int64
	LastPushBack drive.Time // zero: none
	Shard        string     // "17/64"
	Slice        string     // UTC minute or hour of the index slice; empty for the memory queue
}

// pendingStep is a step that waits to be written to the database and exported.
type pendingStep struct {
	Step
	timer timer.Key
	armed drive.Time // time at which the timer was armed
}

// Counters counts the work of a Recorder since its creation.
type Counters struct {
	Written  atomic.Int64 // steps written
	Dropped  atomic.Int64 // steps dropped: too many waited, or the database failed
	Exported atomic.Int64 // steps accepted by the collector
	Lost     atomic.Int64 // steps not accepted by the collector
}

// Recorder records steps. It is safe for concurrent use.
type Recorder struct {
	opt      Options
	counters Counters
	wake     chan struct{}      // signals that steps wait
	out      chan []pendingStep // batches for the collector

	mu      sync.Mutex
	waiting []pendingStep // steps to be written
}

// New returns a Recorder. The caller must call Run, which writes the steps.
func New(opt Options) *Recorder {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Recorder{opt: opt, wake: make(chan struct{}, 1), out: make(chan []pendingStep, maxQueued)}
}

// Counters returns the live counters.
func (r *Recorder) Counters() *Counters { return &r.counters }

// Record queues a step, to be written later. It never blocks: if maxWaiting steps wait, it drops
// the step and counts it. The first start of a timer also queues the step Armed.
func (r *Recorder) Record(t timer.Trace) {
	one := Step{Gen: t.Gen, Step: t.Step, Began: drive.TimeOf(t.Began), At: drive.TimeOf(t.At), Delivery: t.Delivery, Instance: r.opt.Instance}
	if t.Err != nil {
		one.Reason = drive.KindOf(t.Err).String()
	}
	if t.Step == timer.Started {
		one.Queued = QueueState{PushBacks: t.PushBacks, Shard: t.Shard, Slice: t.Slice}
		if t.PushBacks > 0 {
			one.Queued.LastPushBack = t.Last
		}
	}
	steps := []pendingStep{{one, t.Key, t.First}}
	if t.Step == timer.Started && t.Delivery <= 1 && t.Attempt == 0 { // armed is recorded only now, when the timer has fired
		armed := Step{Gen: t.Gen, Step: timer.Armed, Began: t.First, At: t.First, Delivery: t.Delivery, Instance: r.opt.Instance}
		steps = []pendingStep{{armed, t.Key, t.First}, steps[0]}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.waiting)+len(steps) > maxWaiting {
		r.counters.Dropped.Add(int64(len(steps)))
		return
	}
	r.waiting = append(r.waiting, steps...)
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Run writes recorded steps to the database, and to the collector if Export is set, until ctx is
// done; then it writes the rest, for at most flushTime. It waits while no timer fires. It always
// returns nil and must be called once.
func (r *Recorder) Run(ctx context.Context) error {
	var sending sync.WaitGroup
	if r.opt.Export != nil {
		sending.Go(func() { r.send(ctx) })
	}
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-r.wake:
			pause(ctx, flushEvery)
			r.flush(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
	defer cancel()
	r.flush(last)
	close(r.out)
	sending.Wait()
	return nil
}

// pause waits for d or until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// takeAll removes and returns the steps that wait to be written; nil if there are none.
func (r *Recorder) takeAll() []pendingStep {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.waiting
	r.waiting = nil
	return steps
}

// flush writes the waiting steps and queues them for the collector. After a failure they are
// dropped.
func (r *Recorder) flush(ctx context.Context) {
	steps := r.takeAll()
	if len(steps) == 0 {
		return
	}
	if r.opt.Export != nil {
		select {
		case r.out <- steps:
		default:
			r.counters.Lost.Add(int64(len(steps)))
		}
	}
	if err := r.write(ctx, steps); err != nil {
		r.counters.Dropped.Add(int64(len(steps)))
		r.opt.Log.WarnContext(ctx, "timer steps not written; they are lost", "count", len(steps), "error", err)
		return
	}
	r.counters.Written.Add(int64(len(steps)))
}

// write inserts the rows of steps in one transaction, rowsPerInsert per statement: after an error
// none is stored.
func (r *Recorder) write(ctx context.Context, steps []pendingStep) error {
	return r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for at := 0; at < len(steps); at += rowsPerInsert {
			page := steps[at:min(at+rowsPerInsert, len(steps))]
			var values []any
			for _, s := range page {
				values = append(values, s.timer.String(), s.Gen, string(s.Step.Step), s.Began, s.At, s.Delivery, s.Instance, s.Reason,
					s.Queued.PushBacks, s.Queued.LastPushBack, s.Queued.Shard, s.Queued.Slice)
			}
			rows := strings.TrimSuffix(strings.Repeat("(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?), ", len(page)), ", ")
			_, err := tx.Exec(ctx, "INSERT INTO timer_steps (timer, gen, step, begun_at, done_at, delivery, instance, reason, push_backs, pushed_at, shard, slice) VALUES "+rows, values...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Find returns the latest steps of a timer in order of time, after writing the waiting steps of
// this process.
func (r *Recorder) Find(ctx context.Context, key timer.Key) ([]Step, error) {
	r.flush(ctx)
	rows, err := r.opt.DB.Query(ctx, `SELECT gen, step, begun_at, done_at, delivery, instance, reason, push_backs, pushed_at, shard, slice
		FROM timer_steps WHERE timer = ? ORDER BY id DESC LIMIT ?`, key.String(), maxShown)
	steps, err := sqldb.Scan(rows, err, func(s *Step, scan func(...any) error) error {
		return scan(&s.Gen, &s.Step, &s.Began, &s.At, &s.Delivery, &s.Instance, &s.Reason,
			&s.Queued.PushBacks, &s.Queued.LastPushBack, &s.Queued.Shard, &s.Queued.Slice)
	})
	if err != nil {
		return nil, fmt.Errorf("read the way of timer %s: %w", key, err)
	}
	sortSteps(steps)
	return steps, nil
}

// Trim deletes steps older than three days, and the oldest beyond a million rows, in transactions
// of trimBatch rows, until a batch is not full. After an error it may be called again.
func (r *Recorder) Trim(ctx context.Context, now time.Time) error {
	for _, batch := range []sqldb.Batch{
		{
			Where: "id IN (SELECT id FROM (SELECT id, done_at FROM timer_steps ORDER BY id LIMIT ?) AS oldest WHERE done_at < ?)",
			Args:  []any{trimBatch, drive.TimeOf(now.Add(-keepFor))},
		},
		{Where: "id <= (SELECT last - ? FROM (SELECT MAX(id) AS last FROM timer_steps) AS newest)", Args: []any{maxRows}},
	} {
		batch.Table, batch.Key, batch.Limit = "timer_steps", "id", trimBatch
		for n := int64(trimBatch); n == trimBatch; {
			err := r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
				n, err = tx.DeleteBatch(ctx, batch)
				return err
			})
			if err != nil {
				return fmt.Errorf("trim the steps of timers: %w", err)
			}
		}
	}
	return nil
}
