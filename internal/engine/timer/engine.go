package timer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
)

// Handler acts on a fired timer. It runs at least once for each, perhaps twice at the same time,
// and is idempotent by (Key, Gen). nil settles the timer. Later asks to look again. An error of
// kind Unavailable or Stopping is tried again without end; any other consumes an attempt. ctx ends
// with the lease, or when a stop can wait no longer.
type Handler func(ctx context.Context, f Fired) error

// Options configure an Engine. Queue is needed; the zero value of every other field is its default.
type Options struct {
	Queue    Queue
	Handlers map[Kind]Handler // kinds without one are armed and touched, and left for another engine
	// Concurrency is how many handlers of a kind run at a time (16). Kinds do not wait for each
	// other.
	Concurrency map[Kind]int
	// Hold is how long a fired timer is leased (5 min). Its handler may take nine tenths of that.
	Hold time.Duration
	// Grace is how long a stop waits for running handlers before it cancels them (10 s).
	Grace time.Duration
	// Dead takes a timer whose last attempt failed; when it fails too, the timer is tried again.
	// Without it such a timer is logged and dropped.
	Dead func(ctx context.Context, f Fired, cause error) error
	// Lost is called when the queue has lost timers: the owner arms again what its rows say, with
	// last = now. It runs beside the handlers, one at a time, and again after a pause until it
	// succeeds.
	Lost func(ctx context.Context) error
	// Traced is told of every step of every fired timer. It must be quick: handlers wait for it.
	Traced func(t Trace)
	Log    *slog.Logger
}

// Defaults of Options.
const (
	defaultConcurrency = 16
	defaultHold        = 5 * time.Minute
	defaultGrace       = 10 * time.Second
)

// Engine delivers the due timers of a queue to their handlers.
type Engine struct {
	opt      Options
	lanes    [numKinds]*lane // nil where there is no handler
	outcomes chan Outcome
	started  atomic.Bool
	loss     *lossWatch
	owed     *owed
}

// New returns an engine; Run makes it deliver. Arm, Touch, Cancel and Show work before, during and
// after Run.
func New(opt Options) *Engine {
	if opt.Hold <= 0 {
		opt.Hold = defaultHold
	}
	if opt.Grace <= 0 {
		opt.Grace = defaultGrace
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	e := &Engine{opt: opt, outcomes: make(chan Outcome, maxSettle), loss: newLossWatch(), owed: newOwed()}
	for kind, handler := range opt.Handlers {
		slots := opt.Concurrency[kind]
		if slots <= 0 {
			slots = defaultConcurrency
		}
		e.lanes[kind] = newLane(e, kind, handler, slots)
	}
	return e
}

// Arm arms timers; see Queue.Arm. An entry that is due before what the engine waits for wakes it.
// What fails is tried again while the engine runs, until it succeeds or is cancelled.
func (e *Engine) Arm(ctx context.Context, entries ...Entry) error {
	if len(entries) == 0 {
		return nil
	}
	err := e.arm(ctx, entries)
	if err != nil && !drive.IsKind(err, drive.BadRequest) { // such a one would be refused for ever
		e.owed.add(entries)
	}
	return err
}

func (e *Engine) arm(ctx context.Context, entries []Entry) error {
	err := e.opt.Queue.Arm(ctx, entries)
	for i := range entries { // also after an error: some may be armed
		if kind := entries[i].Key.Kind; kind.Known() && e.lanes[kind] != nil {
			e.lanes[kind].armed(&entries[i])
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
		e.owed.settled(entries[i].Key, entries[i].Gen)
	}
	return nil
}

// Touch pushes a timer back: what it watches is active now. It neither blocks nor allocates.
func (e *Engine) Touch(key Key) { e.opt.Queue.Touch(key) }

// Cancel removes a timer whose gen is not greater than gen.
func (e *Engine) Cancel(ctx context.Context, key Key, gen int64) error {
	e.owed.settled(key, gen)
	if err := e.opt.Queue.Cancel(ctx, key, gen); err != nil {
		return fmt.Errorf("cancel timer %s: %w", key, err)
	}
	e.opt.Log.DebugContext(ctx, "timer cancelled", "timer", key, "gen", gen)
	return nil
}

// Show returns what the queue knows of a timer; NotFound when there is none, or the queue cannot
// tell.
func (e *Engine) Show(ctx context.Context, key Key) (State, error) {
	if q, ok := e.opt.Queue.(Inspector); ok {
		return q.Show(ctx, key)
	}
	return State{}, drive.Fail(drive.NotFound)
}

// Pending counts the pending timers of each kind; it is empty when the queue cannot tell.
func (e *Engine) Pending(ctx context.Context) (map[Kind]Horizon, error) {
	if q, ok := e.opt.Queue.(Inspector); ok {
		return q.Pending(ctx)
	}
	return nil, nil
}

// Sample is a cheaper Pending, for callers that ask often: where counting all timers is expensive,
// each call counts some of them.
func (e *Engine) Sample(ctx context.Context) (map[Kind]Horizon, error) {
	if q, ok := e.opt.Queue.(Sampler); ok {
		return q.Sample(ctx)
	}
	return e.Pending(ctx)
}

// Counters returns the counters of a kind; nil when it has no handler here.
func (e *Engine) Counters(kind Kind) *Counters {
	if kind.Known() && e.lanes[kind] != nil {
		return &e.lanes[kind].count
	}
	return nil
}

// Losses returns how often the queue was found to have lost timers.
func (e *Engine) Losses() int64 { return e.loss.count.Load() }

// Run delivers timers until ctx is done, then waits for the handlers that run, at first for Grace,
// then with their context cancelled. What is leased and not settled is delivered again by the next
// engine. It runs once.
func (e *Engine) Run(ctx context.Context) error {
	if !e.started.CompareAndSwap(false, true) {
		return errors.New("timer engine was started before")
	}
	hard, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	var loops, handlers, settler sync.WaitGroup
	for _, l := range e.lanes {
		if l != nil {
			loops.Go(func() { l.run(ctx, hard, &handlers) })
		}
	}
	loops.Go(func() { e.recoverLosses(ctx) })
	loops.Go(func() { e.payOwed(ctx) })
	settler.Go(func() { e.settle(hard) })
	loops.Wait()
	soft := time.AfterFunc(e.opt.Grace, cancel)
	handlers.Wait()
	soft.Stop()
	close(e.outcomes)
	settler.Wait()
	return nil
}
