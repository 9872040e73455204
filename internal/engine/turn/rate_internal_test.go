package turn

import (
	"errors"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// waitOf returns the seconds that an error asks to wait; 0 for nil.
func waitOf(t *testing.T, err error) int {
	t.Helper()
	if err == nil {
		return 0
	}
	e, ok := errors.AsType[*drive.Error](err)
	if !ok || e.Kind != drive.Rate {
		t.Fatal(err)
	}
	return e.Args["retry_after"].(int)
}

// A key has a burst and then one act per interval, independently of other keys.
func TestRateAllowsABurstAndThenARate(t *testing.T) {
	t.Parallel()
	r, now := NewRateLimiter[string](3, 2*time.Second, 100), time.UnixMilli(1_800_000_000_000)
	acts := 0
	for range 100 { // a tenth of a second apart
		if r.Allow("ann", now) == nil {
			acts++
		}
		now = now.Add(100 * time.Millisecond)
	}
	if acts != 3+4 { // ten seconds; the last interval is not over
		t.Errorf("ann has acted %d times in ten seconds", acts)
	}
	if err := r.Allow("bob", now); err != nil {
		t.Errorf("bob waits for ann: %v", err)
	}
	for r.Allow("ann", now) == nil {
	}
	if wait := waitOf(t, r.Allow("ann", now)); wait < 1 || wait > 2 {
		t.Errorf("ann waits for %d s", wait)
	}
	if err := r.Allow("ann", now.Add(2*time.Second)); err != nil {
		t.Errorf("ann has waited: %v", err)
	}
}

// With a burst of one, the last act is taken back; an earlier one is not.
func TestResetTakesTheLastActBack(t *testing.T) {
	t.Parallel()
	r, now := NewRateLimiter[string](1, 5*time.Second, 100), time.UnixMilli(1_800_000_000_000)
	first := now
	for i, step := range []struct {
		after time.Duration
		reset bool // take the last act back before the next one
		wait  int
	}{{0, false, 0}, {0, false, 5}, {3500 * time.Millisecond, false, 2}, {0, true, 0}, {5 * time.Second, false, 0}} {
		now = now.Add(step.after)
		if step.reset {
			r.Reset("ann", first)
		}
		if wait := waitOf(t, r.Allow("ann", now)); wait != step.wait {
			t.Errorf("step %d waits for %d s, want %d", i, wait, step.wait)
		}
	}
	r.Reset("ann", first)
	if wait := waitOf(t, r.Allow("ann", now)); wait != 5 {
		t.Errorf("after an earlier act is taken back, it waits for %d s", wait)
	}
}

// The memory is bounded, and keys that acted recently stay.
func TestRateMemoryIsBounded(t *testing.T) {
	t.Parallel()
	r, now := NewRateLimiter[int](1, time.Hour, 8), time.UnixMilli(1_800_000_000_000)
	for i := range 100 {
		if err := r.Allow(i, now.Add(time.Duration(i)*time.Second)); err != nil {
			t.Fatal(err)
		}
		if len(r.keys) > 8 {
			t.Fatalf("%d keys are known", len(r.keys))
		}
	}
	if wait := waitOf(t, r.Allow(98, now.Add(100*time.Second))); wait == 0 {
		t.Error("a key that acted just now was evicted")
	}
}
