package memory_test

import (
	"testing"

	"smartdrive/internal/timer"
	"smartdrive/internal/timer/memory"
	"smartdrive/internal/timer/timertest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	timertest.Run(t, func(_ *testing.T, c *timertest.Clock) timer.Queue { return memory.New(memory.Options{Now: c.Now}) })
}
