package idem

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"example.org/smartdrive/internal/base/drive"
)

const (
	clickRate  = 100      // operations per second, user and operation
	clickBurst = 200      // operations at once
	maxClicks  = 16 << 10 // users and operations in memory, about 3 MiB
)

// ClickLimiter limits how often a user repeats an operation (SOURCES I3), before the keys are
// checked. It is not a protection: each process counts separately, and when its memory is full it
// evicts the least recently used of a sample.
type ClickLimiter struct {
	opt   Options
	limit int // greatest number of buckets

	mu      sync.Mutex
	buckets map[clickKey]*bucket
}

// clickKey identifies the counter of a user and an operation.
type clickKey struct {
	user      drive.UserID
	operation string
}

// bucket is the rate limiter of one clickKey.
type bucket struct {
	limiter *rate.Limiter
	usedAt  time.Time
}

// NewClickLimiter returns an empty limit.
func NewClickLimiter(opt Options) *ClickLimiter {
	return &ClickLimiter{opt: opt.withDefaults(), limit: maxClicks, buckets: map[clickKey]*bucket{}}
}

// Allow counts one operation. If the user exceeds the limit, it fails with Rate and retry_after in
// whole seconds. operation must come from a fixed set of names.
func (c *ClickLimiter) Allow(user drive.UserID, operation string) error {
	now := c.opt.Now()
	r := c.bucket(clickKey{user, operation}, now).ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
}

// bucket returns the limiter of a key, and creates it if necessary.
func (c *ClickLimiter) bucket(key clickKey, now time.Time) *rate.Limiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.buckets[key]
	if !ok {
		if len(c.buckets) >= c.limit {
			c.evictLocked()
		}
		b = &bucket{limiter: rate.NewLimiter(clickRate, clickBurst)}
		c.buckets[key] = b
	}
	b.usedAt = now
	return b.limiter
}

// evictLocked removes the least recently used of up to 16 random buckets. A bucket unused for two
// seconds is full again, so removing it changes nothing.
func (c *ClickLimiter) evictLocked() {
	var victim clickKey
	var oldest *bucket
	sampled := 0
	for key, b := range c.buckets {
		if oldest == nil || b.usedAt.Before(oldest.usedAt) {
			victim, oldest = key, b
		}
		if sampled++; sampled == 16 {
			break
		}
	}
	delete(c.buckets, victim)
}
