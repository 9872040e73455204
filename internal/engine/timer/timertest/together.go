package timertest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"smartdrive/internal/engine/timer"
)

const (
	meetingKeys = 32
	meetingIdle = 50 * time.Millisecond
)

// meeting is a few timers that many goroutines work on at the same time.
type meeting struct {
	t             *testing.T
	clock         *Clock
	queue         timer.Queue
	index         map[timer.Key]int
	touched, gens [meetingKeys]atomic.Int64
	fired         atomic.Int64
}

// testTogether lets touches, arms, leases and settles of the same few timers meet, under the race
// detector too. T1 is held against the touches that had returned when a lease began; at the end
// each key has one timer, no more and no fewer.
func testTogether(t *testing.T, open func(*testing.T, *Clock) timer.Queue) {
	c := NewClock()
	m := &meeting{t: t, clock: c, queue: open(t, c), index: map[timer.Key]int{}}
	for k := range meetingKeys {
		m.index[numbered(k)] = k
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
				m.touch(1 + (i*7+worker)%(meetingKeys-1)) // the first one is never touched
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

func (m *meeting) arm(k int) {
	entry := timer.Entry{Key: numbered(k), Gen: m.gens[k].Add(1), Idle: meetingIdle}
	if err := m.queue.Arm(m.t.Context(), []timer.Entry{entry}); err != nil {
		m.t.Error(err)
	}
}

func (m *meeting) touch(k int) {
	at := m.clock.Now().UnixMilli()
	m.queue.Touch(numbered(k))
	if q, ok := m.queue.(Flusher); ok {
		q.Flush()
	}
	for v := &m.touched[k]; ; {
		if old := v.Load(); old >= at || v.CompareAndSwap(old, at) {
			return
		}
	}
}

func (m *meeting) lease() {
	var before [meetingKeys]int64
	for k := range before {
		before[k] = m.touched[k].Load()
	}
	b, err := m.queue.Lease(m.t.Context(), timer.Park, 8, time.Hour)
	if err != nil {
		m.t.Error(err)
	}
	for _, f := range b.Fired {
		k := m.index[f.Key]
		if early := before[k] + meetingIdle.Milliseconds() - m.clock.Now().UnixMilli(); early > 0 {
			m.t.Errorf("T1: fired %d ms early", early)
		}
		if m.fired.Add(1)%2 == 0 {
			m.arm(k) // before the lease is settled, as a handler may
		}
		if _, err := m.queue.Settle(m.t.Context(), []timer.Outcome{{Key: f.Key, Token: f.Token, Verdict: timer.Done}}); err != nil {
			m.t.Error(err)
		}
		m.arm(k)
	}
}

// finish wants the newest gen of each key, once.
func (m *meeting) finish() {
	seen := map[timer.Key]bool{}
	for {
		b, err := m.queue.Lease(m.t.Context(), timer.Park, meetingKeys, time.Hour)
		if err != nil {
			m.t.Fatal(err)
		}
		for _, f := range b.Fired {
			if seen[f.Key] || f.Gen != m.gens[m.index[f.Key]].Load() {
				m.t.Errorf("at the end %s fired with gen %d, seen before: %v", f.Key, f.Gen, seen[f.Key])
			}
			seen[f.Key] = true
		}
		if len(b.Fired) == 0 {
			break
		}
	}
	if len(seen) != meetingKeys {
		m.t.Errorf("at the end %d of %d timers fired", len(seen), meetingKeys)
	}
}
