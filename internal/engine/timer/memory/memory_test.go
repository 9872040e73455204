package memory_test

import (
	"testing"

	"smartdrive/internal/engine/timer"
	"smartdrive/internal/engine/timer/memory"
	"smartdrive/internal/engine/timer/timertest"
)

func TestQueue(t *testing.T) {
	t.Parallel()
	timertest.Run(t, func(_ *testing.T, c *timertest.Clock) timer.Queue { return memory.New(memory.Options{Now: c.Now}) })
}
