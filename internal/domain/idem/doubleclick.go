package idem

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"smartdrive/internal/base/drive"
)

const (
	clickRate  = 100      // operations a second, by user and operation
	clickBurst = 200      // at once
	maxClicks  = 16 << 10 // users and operations remembered, about 3 MiB
)

// DoubleClick limits how often a user repeats an operation (SOURCES I3). It is the courtesy in
// front of the keys, not the protection: each process counts for itself, and where its memory is
// full it forgets whom it heard of longest ago.
type DoubleClick struct {
	opt   Options
	limit int // of buckets

	mu      sync.Mutex
	buckets map[clickKey]*bucket
}

type clickKey struct {
	user      drive.UserID
	operation string
}

type bucket struct {
	rate   *rate.Limiter
	usedAt time.Time
}

// NewDoubleClick returns a limit that has seen nobody yet.
func NewDoubleClick(opt Options) *DoubleClick {
	return &DoubleClick{opt: opt.withDefaults(), limit: maxClicks, buckets: map[clickKey]*bucket{}}
}

// Allow counts one operation; too many are Rate with retry_after in whole seconds. Operations are a
// fixed set of names.
func (d *DoubleClick) Allow(user drive.UserID, operation string) error {
	now := d.opt.Now()
	r := d.bucket(clickKey{user, operation}, now).ReserveN(now, 1)
	wait := r.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	r.CancelAt(now)
	return drive.Fail(drive.Rate, "retry_after", int(math.Ceil(wait.Seconds())))
}

func (d *DoubleClick) bucket(key clickKey, now time.Time) *rate.Limiter {
	d.mu.Lock()
	defer d.mu.Unlock()
	b, ok := d.buckets[key]
	if !ok {
		if len(d.buckets) >= d.limit {
			d.evictLocked()
		}
		b = &bucket{rate: rate.NewLimiter(clickRate, clickBurst)}
		d.buckets[key] = b
	}
	b.usedAt = now
	return b.rate
}

// evictLocked drops the longest unused of a few buckets taken at random. One unused for two seconds
// is full again, so dropping it loses nothing.
func (d *DoubleClick) evictLocked() {
	var victim clickKey
	var oldest *bucket
	sampled := 0
	for key, b := range d.buckets {
		if oldest == nil || b.usedAt.Before(oldest.usedAt) {
			victim, oldest = key, b
		}
		if sampled++; sampled == 16 {
			break
		}
	}
	delete(d.buckets, victim)
}
