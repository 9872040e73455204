package memory

import (
	"slices"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// twoHands is a clock with a wall time that can be set while its monotonic time continues.
type twoHands struct {
	wall time.Time
	mono time.Duration
}

func (c *twoHands) pass(d time.Duration) { c.wall, c.mono = c.wall.Add(d), c.mono+d }
func (c *twoHands) set(by time.Duration) { c.wall = c.wall.Add(by) }

func TestWallClockStepsMoveNoTimer(t *testing.T) {
	t.Parallel()
	for _, step := range []time.Duration{-time.Hour, time.Hour, -time.Second, 90 * 24 * time.Hour} {
		hands := &twoHands{wall: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
		var told []time.Duration
		q := New(Options{Now: func() time.Time { return hands.wall }, OnClockStep: func(by time.Duration) { told = append(told, by) }})
		q.clock.read = func() (time.Time, time.Duration) { return hands.wall, hands.mono }
		key := timer.Key{Kind: timer.Park}

		arm(t, q, timer.Entry{Key: key, Gen: 1, Idle: 30 * time.Second})
		hands.pass(10 * time.Second)
		q.Touch(key)
		hands.set(step)
		hands.pass(29 * time.Second)
		if b := leaseOne(t, q); len(b.Fired) != 0 {
			t.Fatalf("step by %v: T1: fired after 29 s of 30", step)
		}
		hands.pass(time.Second)
		b := leaseOne(t, q)
		if len(b.Fired) != 1 {
			t.Fatalf("step by %v: T2: did not fire after 30 s", step)
		}
		if got, want := b.Fired[0].Last, drive.TimeOf(hands.wall).Add(-30*time.Second); got != want {
			t.Errorf("step by %v: last activity is shown as %v, the stepped clock says %v", step, got, want)
		}
		var want []time.Duration
		if step.Abs() > time.Minute {
			want = []time.Duration{step}
		}
		if !slices.Equal(told, want) {
			t.Errorf("step by %v: told %v", step, told)
		}
		// Ages that come from the truth are of the stepped clock too.
		arm(t, q, timer.Entry{Key: key, Gen: 2, Idle: 30 * time.Second, Last: drive.TimeOf(hands.wall).Add(-20 * time.Second)})
		if b := leaseOne(t, q); b.Wait != 10*time.Second {
			t.Errorf("step by %v: armed 20 s after the last activity, it waits %v", step, b.Wait)
		}
	}
}

func arm(t *testing.T, q *Queue, x timer.Entry) {
	t.Helper()
	if err := q.Arm(t.Context(), []timer.Entry{x}); err != nil {
		t.Fatal(err)
	}
}

func leaseOne(t *testing.T, q *Queue) timer.Batch {
	t.Helper()
	b, err := q.Lease(t.Context(), timer.Park, 1, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
