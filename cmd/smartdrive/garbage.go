package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// minHeap is the least heap size in bytes before garbage is collected, unless GOGC is set. By
// default Go collects when the heap has doubled; a server with few MiB of live heap would collect
// 25 to 45 times a second while storing small files (decision 150). With a live heap of more than
// half of minHeap, minHeap has no effect.
const minHeap = 24 << 20

// maxGrowth bounds the heap growth in percent. The runtime applies the current percentage to the
// next collection's live heap, before adjustGC runs; without a bound, a suddenly large heap could
// grow to many times its size.
const maxGrowth = 300

// delayCollection makes the collector run when the heap has doubled, but not before it reaches
// minHeap.
func delayCollection() {
	if os.Getenv("GOGC") == "" {
		adjustGC()
	}
}

// adjustGC sets the percentage for the next collection, and registers a cleanup that calls it again
// after that collection.
func adjustGC() {
	held := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(held)
	debug.SetGCPercent(gcPercent(held[0].Value.Uint64()))
	runtime.AddCleanup(new([64]byte), func(struct{}) { adjustGC() }, struct{}{})
}

// gcPercent returns the heap growth in percent until the next collection, given the live heap in
// bytes.
func gcPercent(held uint64) int {
	if held == 0 || held >= minHeap/2 {
		return 100
	}
	return min(maxGrowth, int(minHeap*100/held)-100) //nolint:gosec // at most minHeap*100
}
