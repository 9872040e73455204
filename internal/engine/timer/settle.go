package timer

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// maxSettle is how many outcomes one Settle carries at most.
const maxSettle = 256

// settle sends outcomes to the queue in batches: what has come while the last batch was on its way
// makes the next, so that a slow queue gets large batches and a fast one gets them at once. A batch
// that fails is dropped: its leases run out, and the handlers meet again what they have done
// already (T3).
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

func (e *Engine) settleBatch(ctx context.Context, batch []Outcome) {
	// What was done is worth recording also while the engine stops, but not for ever.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.opt.Grace)
	defer cancel()
	again, err := e.opt.Queue.Settle(ctx, batch)
	for _, o := range batch {
		e.lanes[o.Key.Kind].expect(again)
	}
	if err != nil {
		e.opt.Log.WarnContext(ctx, "timers not settled; they will be delivered again", "count", len(batch), "error", err)
	}
}

// lossWatch notices a new epoch. Lanes that ask at the same time may report epochs in any order, so
// all that were seen count as known.
type lossWatch struct {
	mu     sync.Mutex
	known  map[uint64]bool
	last   atomic.Uint64
	signal chan struct{}
	count  atomic.Int64
}

func newLossWatch() *lossWatch {
	return &lossWatch{known: map[uint64]bool{}, signal: make(chan struct{}, 1)}
}

func (w *lossWatch) saw(epoch uint64) {
	if w.last.Load() == epoch {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last.Store(epoch)
	if w.known[epoch] {
		return
	}
	w.known[epoch] = true
	if len(w.known) == 1 {
		return // the first one: the owner has armed its timers at start anyway
	}
	w.count.Add(1)
	select {
	case w.signal <- struct{}{}:
	default:
	}
}

// recoverLosses calls Options.Lost after each loss until it succeeds.
func (e *Engine) recoverLosses(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.loss.signal:
		}
		e.opt.Log.ErrorContext(ctx, "timer queue has lost timers; arming them again")
		for e.opt.Lost != nil && ctx.Err() == nil {
			err := e.opt.Lost(ctx)
			if err == nil {
				break
			}
			e.opt.Log.WarnContext(ctx, "timers not armed again yet", "error", err)
			pause(ctx, deferral+rand.N(deferral/2))
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
