//go:build !unix

package main

import "time"

var started = time.Now()

// cpuTime returns the time since the start, because the processor time is not available on this
// system.
func cpuTime() time.Duration { return time.Since(started) }
