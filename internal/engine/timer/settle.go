package timer

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/telemetry"
)

// maxSettle bounds the outcomes of one Settle.
const maxSettle = 256

// settle sends outcomes to the queue in batches until e.outcomes is closed. The outcomes that
// arrive during one call form the next batch, so a slow queue gets large batches. A failed batch is
// dropped: its leases expire, and the handlers get the same timers again (T3).
func (e *Engine) settle(ctx context.Context) {
	batch := make([]Outcome, 0, maxSettle)
	for first := range e.outcomes {
		batch = append(batch[:0], first)
		for len(batch) < maxSettle {
			select {
			case o, ok := <-e.outcomes:
				if ok {
					batch = append(batch, o)
					continue
				}
			default:
			}
			break
		}
		e.settleBatch(ctx, batch)
	}
}

// settleBatch sends one batch and wakes the workers whose timers may be due earlier. A failure is
// logged.
func (e *Engine) settleBatch(ctx context.Context, batch []Outcome) {
	// Outcomes are recorded even while the engine stops, but for a bounded time.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opt.Grace)
	defer cancel()
	again, err := e.opt.Queue.Settle(ctx, batch)
	for _, o := range batch {
		e.workers[o.Key.Kind].wakeWithin(again)
	}
	if err != nil {
		e.opt.Log.WarnContext(ctx, "timers not settled; they are delivered again when their leases expire", "count", len(batch), "error", err)
	}
}

// lossDetector detects losses by new epochs of the queue. Concurrent leases may report epochs in
// any order, so every epoch seen counts as known.
type lossDetector struct {
	mu     sync.Mutex
	known  map[uint64]bool // epochs that were seen
	last   atomic.Uint64   // the epoch seen last
	signal chan struct{}   // signals a loss that is not recovered
	count  atomic.Int64    // losses seen
}

// newLossDetector returns a detector that has seen no epoch.
func newLossDetector() *lossDetector {
	return &lossDetector{known: map[uint64]bool{}, signal: make(chan struct{}, 1)}
}

// observe records the epoch of the queue's timers that a Batch reports. Each epoch that was not
// seen before, other than the very first, counts as a loss and signals recoverLosses.
func (d *lossDetector) observe(epoch uint64) {
	if d.last.Load() == epoch {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last.Store(epoch)
	if d.known[epoch] {
		return
	}
	d.known[epoch] = true
	if len(d.known) == 1 {
		return // first epoch: the owner armed its timers at its start
	}
	d.count.Add(1)
	select {
	case d.signal <- struct{}{}:
	default:
	}
}

// recoverLosses waits for losses that the queue signals and calls Options.OnLoss for each, again
// after a pause until it succeeds. It returns when ctx ends; a loss not yet recovered is then left
// to the next start.
func (e *Engine) recoverLosses(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.loss.signal:
		}
		e.opt.Log.ErrorContext(ctx, "timer queue lost timers; arming all of them again from the database")
		var outage telemetry.Outage
		for e.opt.OnLoss != nil && ctx.Err() == nil {
			err := e.opt.OnLoss(ctx)
			outage.Record(ctx, e.opt.Log, "arming the lost timers failed; retrying", err)
			if err == nil {
				break
			}
			pause(ctx, transientPause+rand.N(transientPause/2))
		}
	}
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
