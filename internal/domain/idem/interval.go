package idem

import (
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/turn"
)

// maxIntervals bounds the users in memory for each kind of creation, about 3 MiB.
const maxIntervals = 16 << 10

// IntervalLimiter allows each user one creation of a kind per interval, for kinds with an interval
// (SOURCES I5). Unlike keys and prepare ids, it refuses a second creation even if it is intended.
// Each process counts on its own.
type IntervalLimiter struct {
	now   func() time.Time
	kinds map[string]*turn.RateLimiter[drive.UserID]
}

// NewIntervalLimiter returns a limiter with the given intervals by kind of creation. A kind that is
// not in every, or whose interval is not positive, is not limited. It uses Options.Now only.
func NewIntervalLimiter(every map[string]time.Duration, opt Options) *IntervalLimiter {
	v := &IntervalLimiter{now: opt.withDefaults().Now, kinds: map[string]*turn.RateLimiter[drive.UserID]{}}
	for kind, interval := range every {
		if interval > 0 {
			v.kinds[kind] = turn.NewRateLimiter[drive.UserID](1, interval, maxIntervals)
		}
	}
	return v
}

// Begin starts an interval for a creation of the kind. If the user's last interval has not ended,
// it fails with drive.Rate and retry_after in whole seconds. The caller must call undo if nothing
// was created. A nil IntervalLimiter allows everything.
func (v *IntervalLimiter) Begin(user drive.UserID, kind string) (undo func(), err error) {
	if v == nil || v.kinds[kind] == nil {
		return func() {}, nil
	}
	now := v.now()
	if err := v.kinds[kind].Allow(user, now); err != nil {
		return nil, err
	}
	return func() { v.kinds[kind].Reset(user, now) }, nil
}
