package thumb

import (
	"fmt"
	"runtime/debug"
	"syscall"

	"example.org/smartdrive/internal/base/drive"
)

// overhead is the memory of a child beside its decoder: the program's data, the read-ahead buffer,
// the picture while it is scaled down, and the runtime's 64 MiB arenas.
const overhead = 160 * drive.MiB

// set applies the limits to this process; the system kills it if it exceeds them. RLIMIT_DATA
// counts written memory, not reserved memory, of which Go has much (getrlimit(2); since Linux 4.7).
func (l limits) set() error {
	most := uint64(l.memory + overhead) //nolint:gosec // positive
	seconds := uint64(l.time.Seconds())
	for resource, value := range map[int]syscall.Rlimit{
		syscall.RLIMIT_DATA:  {Cur: most, Max: most},
		syscall.RLIMIT_CPU:   {Cur: seconds, Max: seconds},
		syscall.RLIMIT_CORE:  {},
		syscall.RLIMIT_FSIZE: {Cur: uint64(l.file), Max: uint64(l.file)}, //nolint:gosec // not negative
	} {
		if err := syscall.Setrlimit(resource, &value); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	debug.SetMemoryLimit(int64(l.memory + overhead/4)) // collect garbage well before the hard limit
	const later = 10                                   // nice(2): uploads and downloads go first; the process group covers all threads
	return syscall.Setpriority(syscall.PRIO_PGRP, 0, later)
}

// childAttr puts a child into a process group of its own, so that a signal from the terminal
// reaches only the server; the child ends with its request. If the server dies, the child's input
// ends and so does the child.
func childAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
