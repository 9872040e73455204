// Package trace keeps the way of each timer that has fired: armed, fired, published, consumed,
// applied, with times, over all instances that it passed (D7).
//
//	engine, dispatch ──Note──► waiting, in memory ──Flush, each second──► timer_steps ──Find──► people
//	                                                        └──► OTLP over HTTP, where it is set
//
// Nothing waits for it, and nothing is decided by it: a step is noted without I/O, written with
// others in one transaction behind the work, and dropped when too many wait. What a process has not
// written when it dies is lost. Activity that pushes a timer back leaves no step; a timer that is
// cancelled leaves none at all.
package trace

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/timer"
)

const (
	flushEvery = time.Second     // what has come meanwhile is one transaction
	flushTime  = 5 * time.Second // what a last flush may take while the process stops
	maxWaiting = 4096            // steps in memory, some 200 bytes each; further ones are dropped
	rowsAtOnce = 100             // of one INSERT
	maxShown   = 200             // steps of one timer that Find returns, the latest
	keep       = 72 * time.Hour  // a weekend
	maxRows    = 1_000_000       // some 150 MB with the index
	trimBatch  = 500             // rows of one transaction
	maxQueued  = 16              // batches that wait for the collector of traces
)

// Options configure New. DB is needed; the zero value of every other field is its default.
type Options struct {
	DB       *sqldb.DB
	Instance string // names this process
	Log      *slog.Logger
	Export   *OTLP // nil: nothing is sent anywhere
}

// Step is one step as people see it.
type Step struct {
	Gen      int64      `json:"gen"`
	Step     timer.Step `json:"step"`
	Began    drive.Time `json:"began"` // of what has ended with the step
	At       drive.Time `json:"at"`
	Delivery int        `json:"delivery"`
	Instance string     `json:"instance"`
	Reason   string     `json:"reason,omitempty"` // the code of the kind of an error
	Queued   Queued     // of fired only
}

// Queued tells what the queue knew of a timer when it fired.
type Queued struct {
	PushBacks    int64
	LastPushBack drive.Time // zero: none
	Shard        string     // "17/64"
	Slice        string     // the UTC minute or hour that it was indexed under; empty in memory
}

// noted is a step that waits to be written.
type noted struct {
	Step
	timer timer.Key
	armed drive.Time // when the timer began to count
}

// Counters tell what a Recorder did since it was made.
type Counters struct {
	Written  atomic.Int64 // steps
	Dropped  atomic.Int64 // steps: too many waited, or the database was away
	Exported atomic.Int64 // steps that the collector of traces has taken
	Lost     atomic.Int64 // steps that it has not
}

// Recorder keeps steps. It is safe for concurrent use.
type Recorder struct {
	opt      Options
	counters Counters
	wake     chan struct{}
	out      chan []noted // for the collector

	mu      sync.Mutex
	waiting []noted
}

// New returns a recorder; Run makes it write.
func New(opt Options) *Recorder {
	if opt.Log == nil {
		opt.Log = slog.Default()
	}
	return &Recorder{opt: opt, wake: make(chan struct{}, 1), out: make(chan []noted, maxQueued)}
}

// Counters returns the counters.
func (r *Recorder) Counters() *Counters { return &r.counters }

// Note takes a step. It never blocks.
func (r *Recorder) Note(t timer.Trace) {
	one := Step{Gen: t.Gen, Step: t.Step, Began: drive.TimeOf(t.Began), At: drive.TimeOf(t.At), Delivery: t.Delivery, Instance: r.opt.Instance}
	if t.Err != nil {
		one.Reason = drive.KindOf(t.Err).String()
	}
	if t.Step == timer.Started {
		one.Queued = Queued{PushBacks: t.PushBacks, Shard: t.Shard, Slice: t.Slice}
		if t.PushBacks > 0 {
			one.Queued.LastPushBack = t.Last
		}
	}
	steps := []noted{{one, t.Key, t.First}}
	if t.Step == timer.Started && t.Delivery <= 1 && t.Attempt == 0 { // that it was armed is worth a row now, and was not before
		armed := Step{Gen: t.Gen, Step: timer.Armed, Began: t.First, At: t.First, Delivery: t.Delivery, Instance: r.opt.Instance}
		steps = []noted{{armed, t.Key, t.First}, steps[0]}
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

// Run writes what is noted until ctx is done, and then what is left. It does nothing while nothing
// fires.
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

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (r *Recorder) take() []noted {
	r.mu.Lock()
	defer r.mu.Unlock()
	steps := r.waiting
	r.waiting = nil
	return steps
}

// flush writes what waits, and hands it to the sender. What cannot be written is dropped.
func (r *Recorder) flush(ctx context.Context) {
	steps := r.take()
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
		r.opt.Log.WarnContext(ctx, "the steps of timers were not written", "count", len(steps), "error", err)
		return
	}
	r.counters.Written.Add(int64(len(steps)))
}

func (r *Recorder) write(ctx context.Context, steps []noted) error {
	return r.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for at := 0; at < len(steps); at += rowsAtOnce {
			page := steps[at:min(at+rowsAtOnce, len(steps))]
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

// Find returns the latest steps of a timer, the earliest of them first. What this process has noted
// is written before.
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
	inOrder(steps)
	return steps, nil
}

// Trim deletes in batches what is older than three days, and what is more than a million rows.
func (r *Recorder) Trim(ctx context.Context, now time.Time) error {
	for _, batch := range []sqldb.Batch{
		{
			Where: "id IN (SELECT id FROM (SELECT id, done_at FROM timer_steps ORDER BY id LIMIT ?) AS oldest WHERE done_at < ?)",
			Args:  []any{trimBatch, drive.TimeOf(now.Add(-keep))},
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
