package memory_test

import (
	"runtime"
	"testing"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/engine/timer/timertest"
)

func BenchmarkQueue(b *testing.B) {
	timertest.Benchmark(b, func(*testing.B) timer.Queue { return memory.New(memory.Options{}) })
}

// BenchmarkPendingBytes counts all that the queue holds for a million pending timers: entries,
// table, heaps, slack.
func BenchmarkPendingBytes(b *testing.B) {
	const n = 1_000_000
	keys := timertest.Keys(n)
	perTimer := 0.0
	for b.Loop() {
		before := heapInUse()
		q := memory.New(memory.Options{})
		timertest.ArmAll(b, q, keys)
		perTimer = float64(heapInUse()-before) / n
		runtime.KeepAlive(q)
	}
	b.ReportMetric(perTimer, "B/timer")
	if perTimer > 128 {
		b.Errorf("a pending timer costs %.1f bytes, at most 128 were promised", perTimer)
	}
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
