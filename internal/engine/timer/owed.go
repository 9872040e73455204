package timer

import (
	"context"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

const (
	payEvery = time.Second
	payBatch = 256     // entries of one Arm
	maxOwed  = 100_000 // about 20 MB; what is beyond is left to the audit, which finds uploads without a timer
)

// owed keeps the timers that could not be armed until they can be. A queue that comes back with a
// new epoch makes the owner arm everything again, but once for all instances: a row that one of
// them wrote while it alone did not reach the new master yet may come after that, and nobody else
// would look at it.
type owed struct {
	mu      sync.Mutex
	entries map[Key]Entry
	dropped int64
	signal  chan struct{}
}

func newOwed() *owed { return &owed{entries: map[Key]Entry{}, signal: make(chan struct{}, 1)} }

// add notes entries; the later of two for one key stays. An entry whose activity is "now" gets this
// moment: it may be armed several times while others of its batch fail, and none of these attempts
// is activity.
func (o *owed) add(entries []Entry) {
	now := drive.TimeOf(time.Now())
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range entries {
		if x.Last == 0 {
			x.Last = now
		}
		old, ok := o.entries[x.Key]
		switch {
		case ok && old.Gen > x.Gen:
		case !ok && len(o.entries) == maxOwed:
			o.dropped++
		default:
			o.entries[x.Key] = x
		}
	}
	select {
	case o.signal <- struct{}{}:
	default:
	}
}

// settled forgets what is owed of a timer up to gen: it was armed, has fired, or was cancelled.
func (o *owed) settled(key Key, gen int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if x, ok := o.entries[key]; ok && x.Gen <= gen {
		delete(o.entries, key)
	}
}

// some returns up to payBatch of what is owed, and how many timers were dropped since it was asked
// last.
func (o *owed) some() (batch []Entry, dropped int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.entries {
		if len(batch) == payBatch {
			break
		}
		batch = append(batch, x)
	}
	dropped, o.dropped = o.dropped, 0
	return batch, dropped
}

// payOwed arms what is owed, until ctx is done. What fails again is owed still, unless it was
// settled meanwhile.
func (e *Engine) payOwed(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.owed.signal:
		}
		for ctx.Err() == nil {
			batch, dropped := e.owed.some()
			if dropped > 0 {
				e.opt.Log.ErrorContext(ctx, "too many timers could not be armed; the audit will find the rest", "count", dropped)
			}
			if len(batch) == 0 {
				break
			}
			if e.arm(ctx, batch) != nil {
				pause(ctx, payEvery)
			}
		}
	}
}
