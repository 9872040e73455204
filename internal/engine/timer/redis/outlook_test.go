package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

// TestOutlookDoesNotVerifyTheServer checks that computing an outlook does not count as a
// verification.
func TestOutlookDoesNotVerifyTheServer(t *testing.T) {
	t.Parallel()
	sh, now := newShard("test", 0), time.Now()
	for range 2 {
		if !sh.outlook(timer.Park, now).check {
			t.Error("the server was not asked, and is not to be asked")
		}
	}
}

// TestFailedShardsDoNotDelayOthers: shards of an unreachable server are the most overdue. They are
// asked one at a time while other shards have due timers; without others, all are asked.
func TestFailedShardsDoNotDelayOthers(t *testing.T) {
	t.Parallel()
	const kind, dead = timer.Park, 21
	now := time.Now()
	q := &Queue{opt: Options{Now: func() time.Time { return now }}, widths: make([]atomic.Int32, kind+1)}
	q.widths[kind].Store(firstWidth)
	for n := range dead + 3 {
		sh := newShard("test", n)
		sh.kinds[kind].reliable, sh.kinds[kind].next = true, sh.clockLocked(now)
		if n < dead {
			sh.kinds[kind].next -= 1000
			sh.markFailed(kind, now)
		}
		q.shards = append(q.shards, sh)
	}
	asked := func() (healthy, broken int) {
		l := leaseRun{q: q, kind: kind}
		for _, a := range l.due(100) {
			if a.shard.number < dead {
				broken++
			} else {
				healthy++
			}
		}
		return healthy, broken
	}
	for _, c := range []struct {
		later           time.Duration
		healthy, broken int
	}{{0, 3, 0}, {failurePause, 3, 1}} {
		now = now.Add(c.later)
		if healthy, broken := asked(); healthy != c.healthy || broken != c.broken {
			t.Errorf("after %v it asks %d and %d that failed", c.later, healthy, broken)
		}
	}
	for _, sh := range q.shards[dead:] {
		sh.kinds[kind].next = never
		sh.kinds[kind].asked = now
	}
	q.pollAfter = time.Hour // of the others nothing is to be asked
	if healthy, broken := asked(); healthy != 0 || broken != firstWidth {
		t.Errorf("alone it asks %d and %d that failed", healthy, broken)
	}
}
