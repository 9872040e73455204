package space

import (
	"math"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// rateLimiter limits the calls per user in this process: a burst, then one per interval. It slows
// down copying the directory and protects no secret, so instances count separately and a restart
// resets it.
type rateLimiter struct {
	burst int
	every time.Duration

	mu       sync.Mutex
	refillAt map[drive.UserID]time.Time // when a user has the whole burst again; guarded by mu
}

// maxLimitedUsers is the number of users from which on those with a full burst are evicted.
const maxLimitedUsers = 10_000

// newRateLimiter returns a limiter that allows burst calls at once and then one per interval.
func newRateLimiter(burst int, every time.Duration) *rateLimiter {
	return &rateLimiter{burst: burst, every: every, refillAt: map[drive.UserID]time.Time{}}
}

// allow counts a call of the user at the time now. It returns Rate {retry_after} if the user has
// none left; such a call is not counted.
func (l *rateLimiter) allow(user drive.UserID, now time.Time) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	full := l.refillAt[user]
	if full.Before(now) {
		full = now
	}
	next := full.Add(l.every)
	if wait := next.Sub(now) - time.Duration(l.burst)*l.every; wait > 0 {
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	if len(l.refillAt) >= maxLimitedUsers {
		for id, at := range l.refillAt {
			if !at.After(now) {
				delete(l.refillAt, id)
			}
		}
	}
	l.refillAt[user] = next
	return nil
}
