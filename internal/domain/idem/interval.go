package idem

import (
	"math"
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// maxIntervals bounds the creations that Intervals remembers, about 2 MiB.
const maxIntervals = 16 << 10

// Intervals allows each user one creation of a kind in an interval, for the kinds that have one
// (SOURCES I5). It cannot tell a second click from a second wish: it refuses both, where a key or a
// prepare id repeats the first answer. Each process counts for itself and forgets at its end.
type Intervals struct {
	now   func() time.Time
	every map[string]time.Duration

	mu   sync.Mutex
	last map[clickKey]time.Time // when the interval of a user's last creation ends
}

// NewIntervals returns the intervals by kind of creation. A kind that is not in every has none.
func NewIntervals(every map[string]time.Duration, opt Options) *Intervals {
	return &Intervals{now: opt.withDefaults().Now, every: every, last: map[clickKey]time.Time{}}
}

// Begin starts an interval for a creation of this kind, or fails with drive.Rate and retry_after in
// whole seconds if the user's last one has not ended. The caller calls undo if nothing was created.
func (v *Intervals) Begin(user drive.UserID, kind string) (undo func(), err error) {
	if v == nil || v.every[kind] == 0 {
		return func() {}, nil
	}
	now, key := v.now(), clickKey{user, kind}
	v.mu.Lock()
	defer v.mu.Unlock()
	if wait := v.last[key].Sub(now); wait > 0 {
		return nil, drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	if len(v.last) >= maxIntervals {
		v.evictLocked(now)
	}
	end := now.Add(v.every[kind])
	v.last[key] = end
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.last[key].Equal(end) {
			delete(v.last, key)
		}
	}, nil
}

// evictLocked removes the intervals that ended. If there are none, it removes any one: memory is
// bounded, and 16,384 users who create within one interval are no double click.
func (v *Intervals) evictLocked(now time.Time) {
	for key, end := range v.last {
		if !end.After(now) {
			delete(v.last, key)
		}
	}
	for key := range v.last {
		if len(v.last) < maxIntervals {
			return
		}
		delete(v.last, key)
	}
}
