package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGCPercent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		held uint64
		want int
	}{
		{0, 100}, // nothing was collected yet
		{minHeap / 100, maxGrowth},
		{minHeap / 3, 200},
		{minHeap / 2, 100},
		{minHeap, 100},
		{1 << 40, 100},
	} {
		if got := gcPercent(c.held); got != c.want {
			t.Errorf("with %d bytes held it may grow by %d %%, want %d", c.held, got, c.want)
		}
	}
}

// Each garbage collection adjusts the target for the next one.
func TestAdjustGCRepeats(t *testing.T) { //nolint:paralleltest // changes the environment and the runtime
	before := debug.SetGCPercent(50)
	t.Cleanup(func() { debug.SetGCPercent(before) })
	t.Setenv("GOGC", "50")
	delayCollection()
	if got := percent(); got != 50 {
		t.Errorf("with GOGC=50 it is %d", got)
	}
	t.Setenv("GOGC", "")
	delayCollection()
	large := make([]byte, 4*minHeap)
	await(t, "100 while much is held", func(percent uint64) bool { return percent == 100 })
	runtime.KeepAlive(large)
	await(t, "more when it has gone", func(percent uint64) bool { return percent > 100 })
}

func percent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func await(t *testing.T, what string, ok func(percent uint64) bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(percent()); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("it is %d, want %s", percent(), what)
		}
	}
}
