//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime returns the processor time of this process, which depends less on other load than the
// clock.
func cpuTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
