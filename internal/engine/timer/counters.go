package timer

import (
	"sync/atomic"
	"time"
)

// Counters is what an engine has done for one kind since it began. All fields only grow.
type Counters struct {
	Fired     atomic.Int64 // deliveries, repeated ones included
	Repeated  atomic.Int64 // deliveries after the first: a lease ran out, or a retry
	Early     atomic.Int64 // entries that came up and went back, because of touches
	Snoozed   atomic.Int64 // handlers that asked for later
	Retries   atomic.Int64 // failures that consumed an attempt
	Waits     atomic.Int64 // failures that did not: something was unavailable
	Dead      atomic.Int64 // handed to Options.Dead
	Panics    atomic.Int64
	LeaseErrs atomic.Int64 // the queue could not be asked
	Busy      atomic.Int64 // nanoseconds spent in handlers
	Running   atomic.Int64 // handlers that run now: the one field that also falls
	Lateness  Histogram    // of first deliveries: from due to the start of the handler
}

// LatenessBounds are the upper bounds of a Histogram's buckets; the last bucket has none.
var LatenessBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 5 * time.Second, time.Minute, 10 * time.Minute,
}

// Histogram counts durations in fixed buckets.
type Histogram struct {
	Buckets [len(LatenessBounds) + 1]atomic.Int64 // not cumulative
	Sum     atomic.Int64                          // nanoseconds
}

// Observe counts one duration.
func (h *Histogram) Observe(d time.Duration) {
	i := 0
	for i < len(LatenessBounds) && d > LatenessBounds[i] {
		i++
	}
	h.Buckets[i].Add(1)
	h.Sum.Add(int64(max(d, 0)))
}
