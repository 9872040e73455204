package timer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// TestRetriedArmIsNotActivity arms a timer repeatedly while other entries of its batch fail. It
// must fire once, when due.
func TestRetriedArmIsNotActivity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const wait = time.Minute + time.Second/2
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		r.queue.armHalf.Store(true)
		if err := r.Arm(t.Context(), idle(keyA, 1, wait)); drive.KindOf(err) != drive.Unavailable {
			t.Fatalf("armed: %v", err)
		}
		wantTimes(t, d.within(time.Hour), wait)
		r.queue.armHalf.Store(false)
		wantTimes(t, d.within(time.Hour), wait)
	})
}

// TestInvalidEntryIsNotRetried checks that an invalid entry fails without retries.
func TestInvalidEntryIsNotRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		wrong := idle(keyA, 1, time.Minute)
		wrong.Key.Kind = 200
		if err := r.Arm(t.Context(), wrong); drive.KindOf(err) != drive.BadRequest {
			t.Errorf("a kind that there is not: %v", err)
		}
		wantTimes(t, d.within(time.Hour))
		if n := r.queue.arms.Load(); n != 1 {
			t.Errorf("it was armed %d times", n)
		}
	})
}
