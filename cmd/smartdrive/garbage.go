package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// leastHeap is how large the heap may get before garbage is collected, in bytes, unless GOGC says
// something else. By itself the runtime collects when the heap has doubled since the last time.
// What the server holds is some MiB while only small requests come, so that it collected after each
// few more, 100 times a second: a fifth of its processor time. Once it holds more than half of
// leastHeap, nothing differs.
const leastHeap = 24 << 20

// mostGrowth bounds how much the heap may grow, in percent: when much more is held suddenly, that
// goes on counting until the collection after next is due.
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
