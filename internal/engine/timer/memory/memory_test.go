package memory_test

import (
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/engine/timer/timertest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	timertest.Run(t, func(_ *testing.T, c *timertest.Clock) timer.Queue { return memory.New(memory.Options{Now: c.Now}) })
}

// A timer that is armed while others touch it fires no earlier than its idle time after the touches
// that had returned: however long Arm itself took.
func TestArmThatStallsFiresNothingEarly(t *testing.T) {
	t.Parallel()
	c := timertest.NewClock()
	key := timer.Key{Kind: timer.Park, ID: [16]byte{1}}
	var q *memory.Queue
	q = memory.New(memory.Options{Now: c.Now, OnClockStep: func(by time.Duration) {
		if by < 0 { // in the middle of Arm, which holds nothing yet
			c.Advance(time.Hour + time.Second)
			q.Touch(key)
		}
	}})
	q.Touch(key)
	c.Advance(-time.Hour)
	if err := q.Arm(t.Context(), []timer.Entry{{Key: key, Gen: 1, Idle: time.Second}}); err != nil {
		t.Fatal(err)
	}
	b, err := q.Lease(t.Context(), timer.Park, 1, time.Hour)
	if err != nil || len(b.Fired) > 0 || b.Wait != time.Second {
		t.Errorf("touched now, with a second to be idle: %+v, %v", b, err)
	}
}
