package idem

import (
	"math"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// maxIntervals bounds the creations in memory, about 2 MiB.
const maxIntervals = 16 << 10

// IntervalLimiter allows each user one creation of a kind per interval, for kinds with an interval
// (SOURCES I5). Unlike keys and prepare ids, it refuses a second creation even if it is intended.
// Each process counts separately, in memory.
type IntervalLimiter struct {
	now   func() time.Time
	every map[string]time.Duration // least interval by operation

	mu   sync.Mutex
	last map[clickKey]time.Time // end of the interval of the user's last creation
}

// NewIntervalLimiter returns the intervals by kind of creation. A kind that is not in every is not
// limited.
func NewIntervalLimiter(every map[string]time.Duration, opt Options) *IntervalLimiter {
	return &IntervalLimiter{now: opt.withDefaults().Now, every: every, last: map[clickKey]time.Time{}}
}

// Begin starts an interval for a creation of the kind. If the user's last interval has not ended,
// it fails with drive.Rate and retry_after in whole seconds. The caller must call undo if nothing
// was created. A nil IntervalLimiter allows everything.
func (v *IntervalLimiter) Begin(user drive.UserID, kind string) (undo func(), err error) {
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

// evictLocked removes the ended intervals. If there are none, it removes arbitrary ones to bound
// the memory: that many users within one interval are no double clicks.
func (v *IntervalLimiter) evictLocked(now time.Time) {
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
