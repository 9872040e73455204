package timer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Handler acts on a fired timer. It runs at least once per timer, possibly twice concurrently, and
// must be idempotent by (Key, Gen). Returning nil settles the timer; Later asks for another
// delivery. An error of kind Unavailable or Stopping is retried without limit; any other error
// consumes an attempt. ctx ends shortly before the lease, or after the grace period of a stop.
type Handler func(ctx context.Context, f Fired) error

// Options configure an Engine. Queue is required; the zero value of every other field means its
// default.
type Options struct {
	Queue    Queue
	Handlers map[Kind]Handler // a kind without a handler can be armed and touched; another engine delivers it
	// Concurrency limits the handlers of a kind that run at once (default 16).
	Concurrency map[Kind]int
	// LeaseTime is the duration of a lease (default 5 min). A handler may run for nine tenths of
	// LeaseTime.
	LeaseTime time.Duration
	// Grace is the time that a stop waits for running handlers before it cancels them (default
	// 10 s).
	Grace time.Duration
	// OnDead receives a timer whose last attempt failed. If OnDead fails, the timer is retried. If
	// OnDead is nil, the timer is logged and dropped.
	OnDead func(ctx context.Context, f Fired, cause error) error
	// OnLoss is called after the queue lost timers. It must arm all timers again from the owner's
	// rows, with Last = now. It runs concurrently with handlers, one call at a time, and is
	// retried after a pause until it succeeds.
	OnLoss func(ctx context.Context) error
	// OnTrace receives every step of every fired timer. It must return quickly: handlers wait
	// for it.
	OnTrace func(t Trace)
	Log     *slog.Logger
}

// Defaults of Options.
const (
	defaultConcurrency = 16
	defaultHold        = 5 * time.Minute
	defaultGrace       = 10 * time.Second
)

// Engine delivers the due timers of a queue to handlers.
type Engine struct {
	opt      Options
	workers  [numKinds]*worker // nil for kinds without a handler
	outcomes chan Outcome      // outcomes to be settled
	started  atomic.Bool
	loss     *lossDetector // losses of the queue to be recovered
	unarmed  *unarmed      // entries whose Arm failed
}

// New returns an engine. Run starts the delivery; Arm, Touch, Cancel and Show work before, during
// and after Run.
func New(opt Options) *Engine {
	if opt.LeaseTime <= 0 {
		opt.LeaseTime = defaultHold
	}
	if opt.Grace <= 0 {
		opt.Grace = defaultGrace
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{opt: opt, outcomes: make(chan Outcome, maxSettle), loss: newLossDetector(), unarmed: newUnarmed()}
	for kind, handler := range opt.Handlers {
		slots := opt.Concurrency[kind]
		if slots <= 0 {
			slots = defaultConcurrency
		}
		e.workers[kind] = newWorker(e, kind, handler, slots)
	}
	return e
}

// Arm adds or updates timers in the queue, each on its own, and wakes the engine if one is due
// earlier than expected. An entry with a smaller gen than the stored timer is ignored. It fails
// with BadRequest for an invalid entry, and with Unavailable if the queue is unreachable. Unless
// the error is BadRequest, a running engine retries failed entries until they are armed, delivered
// or cancelled.
func (e *Engine) Arm(ctx context.Context, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	err := e.arm(ctx, entries)
	if err != nil && !drive.IsKind(err, drive.BadRequest) { // a retry would fail again
		e.unarmed.add(entries)
	}
	return err
}

// arm arms entries in the queue, wakes the workers of their kinds, and removes the entries from the
// retry list. On an error the entries stay in the list, although some may be armed.
func (e *Engine) arm(ctx context.Context, entries []Entry) error {
	err := e.opt.Queue.Arm(ctx, entries)
	for i := range entries { // also after an error: some entries may be armed
		if kind := entries[i].Key.Kind; kind.Known() && e.workers[kind] != nil {
			e.workers[kind].wakeFor(&entries[i])
		}
	}
	if err != nil {
		return fmt.Errorf("arm %d timers: %w", len(entries), err)
	}
	if e.opt.Log.Enabled(ctx, slog.LevelDebug) {
		for _, x := range entries {
			e.opt.Log.DebugContext(ctx, "timer armed", "timer", x.Key.String(), "gen", x.Gen, "idle", x.Idle, "max", x.Max)
		}
	}
	for i := range entries {
		e.unarmed.remove(entries[i].Key, entries[i].Gen)
	}
	return nil
}

// Touch records activity of the watched object now, and so delays the timer. It neither blocks nor
// allocates.
func (e *Engine) Touch(key Key) { e.opt.Queue.Touch(key) }

// Cancel removes a timer if its gen is at most gen, and stops retrying to arm it. A missing or
// newer timer is no error. A handler that runs already is not stopped. It fails if the queue is not
// reachable.
func (e *Engine) Cancel(ctx context.Context, key Key, gen int64) error {
	e.unarmed.remove(key, gen)
	if err := e.opt.Queue.Cancel(ctx, key, gen); err != nil {
		return fmt.Errorf("cancel timer %s: %w", key, err)
	}
	e.opt.Log.DebugContext(ctx, "timer cancelled", "timer", key, "gen", gen)
	return nil
}

// Show returns the state of a timer in the queue. It returns NotFound if there is none, or if the
// queue is not an Inspector.
func (e *Engine) Show(ctx context.Context, key Key) (State, error) {
	if q, ok := e.opt.Queue.(Inspector); ok {
		return q.Show(ctx, key)
	}
	return State{}, drive.Fail(drive.NotFound)
}

// Pending counts the timers of each kind. It returns nil if the queue is not an Inspector.
func (e *Engine) Pending(ctx context.Context) (map[Kind]DueCounts, error) {
	if q, ok := e.opt.Queue.(Inspector); ok {
		return q.Pending(ctx)
	}
	return nil, nil
}

// Sample returns the same counts as Pending at less cost, for frequent callers: a Sampler recounts
// only a part of the timers per call.
func (e *Engine) Sample(ctx context.Context) (map[Kind]DueCounts, error) {
	if q, ok := e.opt.Queue.(Sampler); ok {
		return q.Sample(ctx)
	}
	return e.Pending(ctx)
}

// Counters returns the counters of a kind, or nil if the kind has no handler in this engine.
func (e *Engine) Counters(kind Kind) *Counters {
	if kind.Known() && e.workers[kind] != nil {
		return &e.workers[kind].count
	}
	return nil
}

// Losses returns how many losses of timers the engine has detected.
func (e *Engine) Losses() int64 { return e.loss.count.Load() }

// Run delivers timers until ctx is done. It then waits up to Grace for running handlers, cancels
// their context and waits for them to return. Timers leased and not settled are delivered again by
// another engine. A second call fails.
func (e *Engine) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("timer engine was started before")
	}
	handlerCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var loops, handlers, settler sync.WaitGroup
	for _, w := range e.workers {
		if w != nil {
			loops.Go(func() { w.run(ctx, handlerCtx, &handlers) })
		}
	}
	loops.Go(func() { e.recoverLosses(ctx) })
	loops.Go(func() { e.retryArms(ctx) })
	settler.Go(func() { e.settle(handlerCtx) })
	loops.Wait()
	graceTimer := time.AfterFunc(e.opt.Grace, cancel)
	handlers.Wait()
	graceTimer.Stop()
	close(e.outcomes)
	settler.Wait()
	return nil
}
