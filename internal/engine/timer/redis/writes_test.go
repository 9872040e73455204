package redis_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/timertest"
)

// Ten thousand parts over ten minutes, idle 30 s: the server's own count of writes to its sorted
// sets.
func TestManyTouchesCostFewIndexWrites(t *testing.T) {
	t.Parallel()
	srv, c := startServer(t), timertest.NewClock()
	q := newSuite(t, virtual(srv.options(), c))
	counts := func() (n int) {
		for cmd, stat := range srv.client().InfoMap(t.Context(), "commandstats").Val()["Commandstats"] {
			if cmd == "cmdstat_zadd" || cmd == "cmdstat_zrem" {
				calls, _, _ := strings.Cut(strings.TrimPrefix(stat, "calls="), ",")
				v, err := strconv.Atoi(calls)
				if err != nil {
					t.Fatal(err)
				}
				n += v
			}
		}
		return n
	}
	lease(t, q, 1)
	before, key := counts(), someKey(1)
	arm(t, q, timer.Entry{Key: key, Gen: 1, Idle: 30 * time.Second})
	early, next := 0, c.Now().Add(30*time.Second)
	for range 10_000 {
		c.Advance(60 * time.Millisecond)
		q.Touch(key)
		if c.Now().Before(next) {
			continue
		}
		q.Flush() // as its window would have been over
		b := lease(t, q, 1)
		if len(b.Fired) > 0 {
			t.Fatal("T1: it fired while parts came")
		}
		early += b.Early
		next = c.Now().Add(b.Wait)
	}
	st, err := q.Show(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if silent := c.Now().Sub(st.Last.Std()); silent > 30*time.Second {
		t.Errorf("the last touch that was received is %v old", silent)
	}
	// An entry that moves to another slice is written there and in dir, and removed here and there.
	t.Logf("10,000 touches: 1 entry, %d moves of it, %d commands that wrote to sorted sets", early, counts()-before)
	if early+1 > 25 {
		t.Errorf("10,000 touches cost %d index writes", early+1)
	}
}
