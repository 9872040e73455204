//go:build !unix

package main

import "time"

var started = time.Now()

// cpuTime returns the time since the start: this system is not asked for processor time.
func cpuTime() time.Duration { return time.Since(started) }
