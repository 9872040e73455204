package timer

import (
	"sync/atomic"
	"time"
)

// Counters counts the work of an engine for one kind since its start. All fields but Running only
// grow.
type Counters struct {
	Fired     atomic.Int64 // deliveries, including repeated ones
	Repeated  atomic.Int64 // deliveries after the first: an expired lease or a retry
	Early     atomic.Int64 // index entries that were reached before their timer was due and moved
	Snoozed   atomic.Int64 // handlers that returned Later
	Retries   atomic.Int64 // failures that consumed an attempt
	Waits     atomic.Int64 // failures that consumed no attempt, because a dependency was unavailable
	Dead      atomic.Int64 // timers given to Options.OnDead, or dropped
	Panics    atomic.Int64
	LeaseErrs atomic.Int64 // failed calls of Queue.Lease
	Busy      atomic.Int64 // nanoseconds spent in handlers
	Running   atomic.Int64 // handlers running now
	Lateness  Histogram    // of first deliveries: time between due and start of the handler
}

// LatenessBounds are the upper bounds of the buckets of a Histogram; the last bucket is unbounded.
var LatenessBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second, time.Minute, 10 * time.Minute,
}

// Histogram counts durations in the buckets of LatenessBounds.
type Histogram struct {
	Buckets [len(LatenessBounds) + 1]atomic.Int64 // not cumulative
	Sum     atomic.Int64                          // nanoseconds
}

// Observe adds one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(LatenessBounds) && d > LatenessBounds[i] {
		i++
	}
	h.Buckets[i].Add(1)
	h.Sum.Add(int64(max(d, 0)))
}
