package timer

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/telemetry"
)

// maxLease bounds the timers of one Lease, and so the timers that a crash delays by a whole
// LeaseTime.
const maxLease = 512

// worker delivers the timers of one kind. It limits the running handlers by slots.
type worker struct {
	engine  *Engine
	kind    Kind
	handler Handler
	slots   chan struct{} // one element per free slot: a handler that may start
	wake    chan struct{} // signals that a timer may be due before wakeAt
	start   time.Time     // wakeAt counts from here, by the monotonic clock
	wakeAt  atomic.Int64  // nanoseconds since start at which the loop wakes; math.MaxInt64 while it is not asleep
	count   Counters
}

// newWorker returns a worker with slots free slots. The caller must start run.
func newWorker(e *Engine, kind Kind, h Handler, slots int) *worker {
	w := &worker{engine: e, kind: kind, handler: h, slots: make(chan struct{}, slots), wake: make(chan struct{}, 1), start: time.Now()}
	for range slots {
		w.slots <- struct{}{}
	}
	w.wakeAt.Store(math.MaxInt64)
	return w
}

// wakeFor wakes the loop if the armed entry x can be due before the loop wakes by itself.
func (w *worker) wakeFor(x *Entry) {
	wait := x.Idle
	switch {
	case x.Last != 0 || x.First != 0:
		wait = 0 // Last and First are from another clock: only the queue can compute the due time
	case x.Max > 0:
		wait = min(wait, x.Max)
	}
	w.wakeWithin(wait)
}

// wakeWithin wakes the loop if the loop would sleep for longer than wait. No wake-up is lost: the
// caller changed the queue first, and the loop sets wakeAt to never before it asks the queue.
// Either the loop sees the change, or the caller wakes the loop.
func (w *worker) wakeWithin(wait time.Duration) {
	if wait == Never || int64(time.Since(w.start)+wait) >= w.wakeAt.Load() {
		return
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// run delivers timers until ctx is done. Handlers run under handlerCtx and are added to handlers. A
// failed lease is retried.
func (w *worker) run(ctx, handlerCtx context.Context, handlers *sync.WaitGroup) {
	var outage telemetry.Outage
	for ctx.Err() == nil {
		wait, err := w.runOnce(ctx, handlerCtx, handlers)
		outage.Record(ctx, w.engine.opt.Log, "timer queue does not answer", err, slog.String("kind", w.kind.String()))
		if err != nil && ctx.Err() == nil {
			w.count.LeaseErrs.Add(1)
		}
		w.sleep(ctx, wait)
	}
}

// runOnce waits for a free slot, leases due timers and starts their handlers. It returns how long
// the loop may sleep, and the error of the lease.
func (w *worker) runOnce(ctx, handlerCtx context.Context, handlers *sync.WaitGroup) (time.Duration, error) {
	free := w.acquireSlots(ctx)
	if free == 0 {
		return 0, ctx.Err()
	}
	w.wakeAt.Store(math.MaxInt64)
	b, err := w.engine.opt.Queue.Lease(ctx, w.kind, free, w.engine.opt.LeaseTime)
	leased := time.Now()
	w.releaseSlots(free - len(b.Fired))
	if err != nil {
		return time.Second + rand.N(time.Second), err
	}
	w.engine.loss.observe(b.Epoch)
	w.count.Early.Add(int64(b.Early))
	for _, f := range b.Fired {
		handlers.Go(func() {
			defer w.releaseSlots(1)
			w.deliver(handlerCtx, f, leased, b.Now.Sub(f.Due))
		})
	}
	return b.Wait, nil
}

// acquireSlots waits for one slot, takes further free ones up to maxLease, and returns their
// number. It returns 0 if ctx is done.
func (w *worker) acquireSlots(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case <-w.slots:
	}
	for n := 1; n < maxLease; n++ {
		select {
		case <-w.slots:
		default:
			return n
		}
	}
	return maxLease
}

// releaseSlots frees n of the slots that bound concurrent deliveries.
func (w *worker) releaseSlots(n int) {
	for range n {
		w.slots <- struct{}{}
	}
}

// sleep waits for d, for a wake-up or for the end of ctx. Never sleeps until one of the other two.
func (w *worker) sleep(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	var due <-chan time.Time
	if d != Never {
		t := time.NewTimer(d)
		defer t.Stop()
		due = t.C
		w.wakeAt.Store(int64(time.Since(w.start) + d))
	}
	select {
	case <-ctx.Done():
	case <-due:
	case <-w.wake:
	}
}
