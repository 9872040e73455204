//go:build linux

package bench

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.org/smartdrive/internal/engine/timer"
	"example.org/smartdrive/internal/engine/timer/memory"
	"example.org/smartdrive/internal/engine/timer/timertest"
)

// BenchmarkTimers measures the memory queue with a million pending timers: memory per timer, rate
// of touches, and lateness of due timers. It runs in this process and has no baseline except the
// goal.
func BenchmarkTimers(b *testing.B) {
	const pending, touches, each = 1_000_000, 10_000_000, 2
	keys := timertest.Keys(pending)
	before := heap()
	q := memory.New(memory.Options{})
	timertest.ArmAll(b, q, keys)
	perTimer := float64(heap()-before) / pending

	var rate, perCPU sample
	e := timer.New(timer.Options{Queue: q})
	for b.Loop() {
		for range rounds(5) {
			cpu, start := ownCPU(b), time.Now()
			var all sync.WaitGroup
			for worker := range each {
				all.Go(func() {
					for i := range touches {
						e.Touch(keys[(i*7919+worker*pending/each)%pending]) // an order that no cache can predict
					}
				})
			}
			all.Wait()
			rate.add(each * touches / time.Since(start).Seconds())
			perCPU.add(each * touches / (ownCPU(b) - cpu).Seconds())
		}
	}
	runtime.KeepAlive(q)
	table(b, "1,000,000 timers pending in memory", []any{"bytes each (at most 128)", perTimer}, []any{"touches/s by 2 goroutines (5,000,000)", rate},
		[]any{"touches per CPU second, whatever else ran", perCPU})
	b.ReportMetric(perTimer, "B/timer")
	b.ReportMetric(rate.median(), "touches/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDue lets 10,000 timers per second come due.
func BenchmarkDue(b *testing.B) { timertest.BenchmarkDue(b, memory.New(memory.Options{})) }

// ownCPU returns the CPU time of this process.
func ownCPU(b *testing.B) time.Duration {
	b.Helper()
	var ts unix.Timespec
	must(b, unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts))
	return time.Duration(ts.Nano())
}

// heap returns the bytes of live heap objects after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}
