package turn

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/base/drive"
)

// RateLimiter limits how often each key may act: a burst, then one act per interval. It is no
// protection: each process counts on its own, in memory, and evicts keys when it knows too many. It
// is safe for concurrent use.
type RateLimiter[K comparable] struct {
	interval time.Duration
	burst    int
	maxKeys  int

	mu   sync.Mutex
	keys map[K]*usage
}

// usage is what RateLimiter knows of one key.
type usage struct {
	limiter *rate.Limiter
	last    time.Time // when the key last asked
}

// NewRateLimiter returns a limiter that knows at most maxKeys keys, some 200 bytes each.
func NewRateLimiter[K comparable](burst int, interval time.Duration, maxKeys int) *RateLimiter[K] {
	return &RateLimiter[K]{interval: interval, burst: burst, maxKeys: maxKeys, keys: map[K]*usage{}}
}

// Allow counts an act of a key at the time now. If the key has none left, it counts nothing and
// fails with drive.Rate and retry_after in whole seconds.
func (r *RateLimiter[K]) Allow(key K, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	u := r.keys[key]
	if u == nil {
		if len(r.keys) >= r.maxKeys {
			r.evictLocked()
		}
		u = &usage{limiter: rate.NewLimiter(rate.Every(r.interval), r.burst)}
		r.keys[key] = u
	}
	act := u.limiter.ReserveN(now, 1)
	if wait := act.DelayFrom(now); wait > 0 {
		act.CancelAt(now)
		return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
	}
	u.last = now
	return nil
}

// Reset gives a key its whole burst again, unless the key has acted since the act at the time at.
// With a burst of one, it takes that act back.
func (r *RateLimiter[K]) Reset(key K, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u := r.keys[key]; u != nil && u.last.Equal(at) {
		delete(r.keys, key)
	}
}

// evictLocked removes the key that acted longest ago among up to 16 random ones. A key that has not
// acted for burst intervals has its whole burst, so removing it changes nothing. The caller holds
// r.mu.
func (r *RateLimiter[K]) evictLocked() {
	var victim K
	var oldest *usage
	sampled := 0
	for key, u := range r.keys {
		if oldest == nil || u.last.Before(oldest.last) {
			victim, oldest = key, u
		}
		if sampled++; sampled == 16 {
			break
		}
	}
	delete(r.keys, victim)
}
