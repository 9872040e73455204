package timertest

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Values for random sequences; there are few, so that steps often concern the same timer.
var (
	someKinds = rapid.SampledFrom([]timer.Kind{timer.Park, timer.Park, timer.Abandon})
	someIdles = rapid.SampledFrom([]time.Duration{0, time.Second, 5 * time.Second, 30 * time.Second})
	someMaxes = rapid.SampledFrom([]time.Duration{0, 0, 3 * time.Second, 20 * time.Second})
	someAges  = rapid.SampledFrom([]time.Duration{0, time.Second, 10 * time.Second})
	someSteps = rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 5 * time.Second, 11 * time.Second, time.Minute})
)

// someKey draws one of a few keys.
func someKey(t *rapid.T) timer.Key {
	return timer.Key{Kind: someKinds.Draw(t, "kind"), ID: [16]byte{rapid.ByteRange(0, 3).Draw(t, "id")}}
}

// random runs one random sequence of calls on a new queue and fails t if an answer differs from the
// model's; after each call it compares all timers and counts. A rapid failure is shrunk to a short
// sequence.
func random(t *rapid.T, tb *testing.T, open func(*testing.T, *Clock) timer.Queue) {
	h := newHarness(t, tb, open)
	var seen []timer.Fired
	actions := map[string]func(*rapid.T){
		"arm":    func(t *rapid.T) { h.arm(h.someEntry(t)) },
		"touch":  func(t *rapid.T) { h.touch(someKey(t)) },
		"cancel": func(t *rapid.T) { h.cancel(someKey(t), int64(rapid.IntRange(1, 3).Draw(t, "gen"))) },
		"advance": func(t *rapid.T) {
			h.advance(someSteps.Draw(t, "by"))
		},
		"lease": func(t *rapid.T) {
			limit := rapid.IntRange(1, 4).Draw(t, "limit")
			seen = append(seen, h.lease(someKinds.Draw(t, "kind"), limit, 10*time.Second)...)
		},
		"settle": func(t *rapid.T) {
			if len(seen) == 0 {
				t.Skip("nothing was leased")
			}
			h.settle(someOutcome(t, seen))
		},
		"": func(t *rapid.T) {
			h.t = t
			for k := range h.model.timers {
				h.checkShow(k)
			}
			h.checkShow(someAbsent)
			h.checkPending()
		},
	}
	if q, ok := h.queue.(Forgetter); ok {
		actions["forget"] = func(t *rapid.T) {
			if rapid.IntRange(0, 9).Draw(t, "rarely") == 0 {
				h.forget(q)
			}
		}
	}
	t.Repeat(actions)
}

// someAbsent is a key that no step arms.
var someAbsent = timer.Key{Kind: timer.Purge}

// someEntry draws an entry for arm.
func (h *harness) someEntry(t *rapid.T) timer.Entry {
	x := timer.Entry{
		Key: someKey(t), Gen: int64(rapid.IntRange(1, 3).Draw(t, "gen")),
		Account: drive.AccountID{rapid.Byte().Draw(t, "account") % 3},
		Idle:    someIdles.Draw(t, "idle"), Max: someMaxes.Draw(t, "max"),
	}
	if age := someAges.Draw(t, "last ago"); age > 0 {
		x.Last = drive.Time(h.model.now).Add(-age)
	}
	if age := someAges.Draw(t, "first ago"); age > 0 {
		x.First = drive.Time(h.model.now).Add(-age)
	}
	return x
}

// someOutcome draws an outcome for the newest lease, sometimes for an older and possibly void one.
func someOutcome(t *rapid.T, seen []timer.Fired) timer.Outcome {
	i := len(seen) - 1 - rapid.IntRange(0, min(3, len(seen)-1)).Draw(t, "back")
	return timer.Outcome{
		Key: seen[i].Key, Token: seen[i].Token, Verdict: rapid.SampledFrom([]timer.Verdict{timer.Done, timer.Retry, timer.Snooze}).Draw(t, "verdict"),
		In: someSteps.Draw(t, "in"), Attempt: seen[i].Attempt + 1,
	}
}
