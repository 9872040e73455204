package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastHeap is how large the heap may get before garbage is collected, in bytes, unless GOGC says
// something else. By itself the runtime collects when the heap has doubled since the last time.
// While only small requests come the server holds some MiB, and would collect after each few more:
// 25 to 45 times a second while it stores small files (decision 150). Once it holds more than half
// of leastHeap, nothing differs.
const leastHeap = 24 << 20

// mostGrowth bounds how much the heap may grow, in percent. The runtime applies the last percentage
// to whatever the next collection finds, before adjustCollector runs: without a bound, much that is
// held suddenly would let the heap grow to many times that.
const mostGrowth = 300

// collectLater has garbage collected when the heap has doubled, and not before it has leastHeap.
func collectLater() {
	if os.Getenv("GOGC") == "" {
		adjustCollector()
	}
}

// adjustCollector says when the next collection is due, and does so again after that one: then the
// object that it leaves behind is found to be garbage.
func adjustCollector() {
	held := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(held)
	debug.SetGCPercent(mayGrow(held[0].Value.Uint64()))
	runtime.AddCleanup(new([64]byte), func(struct{}) { adjustCollector() }, struct{}{})
}

// mayGrow is by how much the heap may grow until garbage is collected, in percent of what was held
// after the last time.
func mayGrow(held uint64) int {
	if held == 0 || held >= leastHeap/2 {
		return 100
	}
	return min(mostGrowth, int(leastHeap*100/held)-100) //nolint:gosec // at most leastHeap*100
}
