package timertest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
)

const (
	concurrentKeys = 32                    // number of timers
	concurrentIdle = 50 * time.Millisecond // idle time of each timer
)

// concurrentRun is a few timers that several goroutines use at once.
type concurrentRun struct {
	t             *testing.T
	clock         *Clock
	queue         timer.Queue
	index         map[timer.Key]int
	touched, gens [concurrentKeys]atomic.Int64
	fired         atomic.Int64
}

// testConcurrent runs touches, arms, leases and settles of a few timers concurrently. It checks T1
// against the touches that returned before a lease began. At the end each key must have exactly one
// timer.
func testConcurrent(t *testing.T, open func(*testing.T, *Clock) timer.Queue) {
	c := NewClock()
	m := &concurrentRun{t: t, clock: c, queue: open(t, c), index: map[timer.Key]int{}}
	for k := range concurrentKeys {
		m.index[numberedKey(k)] = k
		m.arm(k)
	}
	var all sync.WaitGroup
	for worker := range 2 {
		all.Go(func() {
			for range 2000 {
				c.Advance(time.Millisecond)
				m.lease()
			}
		})
		all.Go(func() {
			for i := range 2000 {
				m.touch(1 + (i*7+worker)%(concurrentKeys-1)) // timer 0 is never touched
			}
		})
	}
	all.Wait()
	if m.fired.Load() == 0 {
		t.Error("nothing fired meanwhile")
	}
	c.Advance(2 * time.Hour)
	m.finish()
}

// arm arms timer k under its next gen.
func (r *concurrentRun) arm(k int) {
	entry := timer.Entry{Key: numberedKey(k), Gen: r.gens[k].Add(1), Idle: concurrentIdle}
	if err := r.queue.Arm(r.t.Context(), []timer.Entry{entry}); err != nil {
		r.t.Error(err)
	}
}

// touch touches timer k and records the time.
func (r *concurrentRun) touch(k int) {
	at := r.clock.Now().UnixMilli()
	r.queue.Touch(numberedKey(k))
	if q, ok := r.queue.(Flusher); ok {
		q.Flush()
	}
	for v := &r.touched[k]; ; {
		if old := v.Load(); old >= at || v.CompareAndSwap(old, at) {
			return
		}
	}
}

// lease leases up to 8 timers, fails the test if one is early, settles them as done and arms them
// again, every other one also before it is settled.
func (r *concurrentRun) lease() {
	var before [concurrentKeys]int64
	for k := range before {
		before[k] = r.touched[k].Load()
	}
	b, err := r.queue.Lease(r.t.Context(), timer.Park, 8, time.Hour)
	if err != nil {
		r.t.Error(err)
	}
	for _, f := range b.Fired {
		k := r.index[f.Key]
		if early := before[k] + concurrentIdle.Milliseconds() - r.clock.Now().UnixMilli(); early > 0 {
			r.t.Errorf("T1: fired %d ms early", early)
		}
		if r.fired.Add(1)%2 == 0 {
			r.arm(k) // before the lease is settled, as a handler may
		}
		if _, err := r.queue.Settle(r.t.Context(), []timer.Outcome{{Key: f.Key, Token: f.Token, Verdict: timer.Done}}); err != nil {
			r.t.Error(err)
		}
		r.arm(k)
	}
}

// finish fails the test unless, after all goroutines have ended, the newest generation of each key
// fires exactly once.
func (r *concurrentRun) finish() {
	seen := map[timer.Key]bool{}
	for {
		b, err := r.queue.Lease(r.t.Context(), timer.Park, concurrentKeys, time.Hour)
		if err != nil {
			r.t.Fatal(err)
		}
		for _, f := range b.Fired {
			if seen[f.Key] || f.Gen != r.gens[r.index[f.Key]].Load() {
				r.t.Errorf("at the end %s fired with gen %d, seen before: %v", f.Key, f.Gen, seen[f.Key])
			}
			seen[f.Key] = true
		}
		if len(b.Fired) == 0 {
			break
		}
	}
	if len(seen) != concurrentKeys {
		r.t.Errorf("at the end %d of %d timers fired", len(seen), concurrentKeys)
	}
}
