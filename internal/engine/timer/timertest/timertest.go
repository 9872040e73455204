package timertest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Run runs the conformance suite. open must return an empty queue that reads the clock c.
func Run(t *testing.T, open func(t *testing.T, c *Clock) timer.Queue) {
	t.Helper()
	Traces(t, open)
	t.Run("a limit is kept, and what is left is delivered next", func(t *testing.T) {
		t.Parallel()
		testLimit(t, open)
	})
	t.Run("an entry that no queue takes is refused, and none of its batch is armed", func(t *testing.T) {
		t.Parallel()
		testRefused(t, open)
	})
	t.Run("timers hold through growth and removal", func(t *testing.T) {
		t.Parallel()
		testMany(t, open)
	})
	t.Run("calls that meet disturb each other in nothing", func(t *testing.T) {
		t.Parallel()
		testConcurrent(t, open)
	})
	Random(t, open)
}

// Random runs random step sequences on queue and model.
func Random(t *testing.T, open func(t *testing.T, c *Clock) timer.Queue) {
	t.Helper()
	t.Run("whatever happens in whatever order, the queue does what the model does", func(t *testing.T) {
		t.Parallel()
		rapid.Check(t, func(rt *rapid.T) { random(rt, t, open) })
	})
}

// Traces runs only the traces of the contract, and those of losses if the queue is a Forgetter.
func Traces(t *testing.T, open func(t *testing.T, c *Clock) timer.Queue) {
	t.Helper()
	traces := contract
	if _, ok := open(t, NewClock()).(Forgetter); ok {
		traces = append(slices.Clip(traces), loss...)
	}
	for _, tr := range traces {
		t.Run(tr.contract, func(t *testing.T) {
			t.Parallel()
			p := &traceRunner{harness: newHarness(t, t, open), tokens: map[timer.Key][]uint64{}}
			p.play(tr.steps)
		})
	}
}

// numberedKey returns the i-th key of kind Park.
func numberedKey(i int) timer.Key {
	k := timer.Key{Kind: timer.Park}
	copy(k.ID[:], fmt.Sprintf("timer %d", i))
	return k
}

// testLimit checks that a lease respects its limit and the next lease delivers the rest.
func testLimit(t *testing.T, open func(*testing.T, *Clock) timer.Queue) {
	h := newHarness(t, t, open)
	for i := range 100 {
		h.arm(timer.Entry{Key: numberedKey(i), Gen: 1, Idle: time.Second})
	}
	h.advance(time.Second)
	seen := map[timer.Key]bool{}
	for len(seen) < 100 {
		fired := h.lease(timer.Park, 7, hold)
		if len(fired) > 7 || len(fired) == 0 {
			t.Fatalf("a lease of at most 7 gave %d, %d are left", len(fired), 100-len(seen))
		}
		for _, f := range fired {
			if seen[f.Key] {
				t.Fatalf("%s came twice", f.Key)
			}
			seen[f.Key] = true
		}
	}
}

// testRefused checks that an invalid entry fails the whole Arm with BadRequest.
func testRefused(t *testing.T, open func(*testing.T, *Clock) timer.Queue) {
	good := timer.Entry{Key: numberedKey(0), Gen: 1}
	for _, bad := range []timer.Entry{
		{Key: timer.Key{Kind: 0}},
		{Key: timer.Key{Kind: 200}},
		{Key: numberedKey(1), Idle: -1},
		{Key: numberedKey(1), Max: -1},
		{Key: numberedKey(1), Idle: timer.MaxDelay + 1},
	} {
		h := newHarness(t, t, open)
		if err := h.queue.Arm(t.Context(), []timer.Entry{good, bad}); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("arm %+v: %v, want %v", bad, err, drive.BadRequest)
		}
		if fired := h.lease(timer.Park, 10, hold); len(fired) > 0 {
			t.Errorf("armed beside %+v: %v", bad, fired)
		}
	}
}

// testMany arms more timers than any initial table holds, removes some in scattered order, and
// expects exactly the others.
func testMany(t *testing.T, open func(*testing.T, *Clock) timer.Queue) {
	h := newHarness(t, t, open)
	const n = 5000
	batch := make([]timer.Entry, 0, n)
	for i := range n {
		batch = append(batch, timer.Entry{Key: numberedKey(i), Gen: 1, Idle: time.Duration(1+i%10) * time.Second})
	}
	h.arm(batch...)
	for i := 0; i < n; i += 3 {
		h.cancel(numberedKey(i*7919%n), 1)
	}
	for i := 0; i < n; i += 11 {
		h.arm(timer.Entry{Key: numberedKey(i), Gen: 2, Idle: 20 * time.Second})
	}
	for range 20 {
		h.advance(time.Second)
		for _, f := range h.lease(timer.Park, n, hold) {
			h.settle(timer.Outcome{Key: f.Key, Token: f.Token, Verdict: timer.Done})
		}
	}
	if left := len(h.model.timers); left > 0 {
		t.Fatalf("%d timers were never delivered", left)
	}
	if h.lease(timer.Park, 1, hold); h.wait != timer.Never {
		t.Fatalf("all are settled, and the queue waits %v for more", h.wait)
	}
}
