package timer

import (
	"context"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

const (
	retryEvery = time.Second // pause after a failed attempt
	retryBatch = 256         // entries per Arm
	maxUnarmed = 100_000     // about 20 MB; further timers are dropped, and the audit finds the uploads without a timer
)

// unarmed keeps the timers that could not be armed, until a retry succeeds. After a loss, one
// instance arms the timers of all rows. It cannot see a row that another instance commits later and
// fails to arm; that instance must retry itself.
type unarmed struct {
	mu      sync.Mutex
	entries map[Key]Entry // entries to be armed
	dropped int64
	signal  chan struct{} // signals that there are entries
}

// newUnarmed returns an empty store.
func newUnarmed() *unarmed { return &unarmed{entries: map[Key]Entry{}, signal: make(chan struct{}, 1)} }

// add stores entries for a retry. For one key the greater gen wins, the later entry on a tie. An
// entry without Last gets the current time, so that retries do not count as activity. When
// maxUnarmed keys are stored, further keys are dropped and counted.
func (u *unarmed) add(entries []Entry) {
	now := drive.TimeOf(time.Now())
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range entries {
		if x.Last == 0 {
			x.Last = now
		}
		old, ok := u.entries[x.Key]
		switch {
		case ok && old.Gen > x.Gen:
		case !ok && len(u.entries) == maxUnarmed:
			u.dropped++
		default:
			u.entries[x.Key] = x
		}
	}
	select {
	case u.signal <- struct{}{}:
	default:
	}
}

// remove drops the entry of key if its gen is at most gen. The caller has armed, delivered or
// cancelled the timer.
func (u *unarmed) remove(key Key, gen int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if x, ok := u.entries[key]; ok && x.Gen <= gen {
		delete(u.entries, key)
	}
}

// batch returns up to retryBatch stored entries without removing them, and the number of timers
// dropped since the last call.
func (u *unarmed) batch() (batch []Entry, dropped int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, x := range u.entries {
		if len(batch) == retryBatch {
			break
		}
		batch = append(batch, x)
	}
	dropped, u.dropped = u.dropped, 0
	return batch, dropped
}

// retryArms arms the timers of the retry list until ctx is done, with a pause after each failure.
// An entry that fails again stays stored. Timers dropped from a full list are logged.
func (e *Engine) retryArms(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-e.unarmed.signal:
		}
		for ctx.Err() == nil {
			batch, dropped := e.unarmed.batch()
			if dropped > 0 {
				e.opt.Log.ErrorContext(ctx, "timers dropped: too many wait to be armed; the audit arms the rest", "count", dropped)
			}
			if len(batch) == 0 {
				break
			}
			if e.arm(ctx, batch) != nil {
				pause(ctx, retryEvery)
			}
		}
	}
}
