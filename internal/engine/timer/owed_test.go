package timer_test

import (
	"testing"
	"testing/synctest"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
)

// A timer is armed again and again while others of its batch cannot be: part of the queue is away.
// It fires when it is due, and once.
func TestArmedAgainIsNoActivity(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := newDiary()
		r := start(t, timer.Options{Handlers: d.handler(succeed)})
		r.queue.armHalf.Store(true)
		if err := r.Arm(t.Context(), idle(keyA, 1, time.Minute)); drive.KindOf(err) != drive.Unavailable {
			t.Fatalf("armed: %v", err)
		}
		wantTimes(t, d.within(time.Hour), time.Minute)
		r.queue.armHalf.Store(false)
		wantTimes(t, d.within(time.Hour), time.Minute)
	})
}
