package thumb

import (
	"fmt"
	"runtime/debug"
	"syscall"

	"smartdrive/internal/base/drive"
)

// overhead is what a process takes beside the decoder: the program's own data, what is read ahead,
// the picture while it becomes smaller, and the 64 MiB in which the runtime takes memory.
const overhead = 160 * drive.MiB

// set makes the system end this process where it takes more. RLIMIT_DATA counts what is written to
// and not what is only set aside, of which a Go program has much (getrlimit(2); since Linux 4.7).
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
	debug.SetMemoryLimit(int64(l.memory + overhead/4)) // collect long before the system says no
	const later = 10                                   // a thumbnail waits for who uploads and downloads (nice(2)); the group is all threads
	return syscall.Setpriority(syscall.PRIO_PGRP, 0, later)
}

// alone keeps what a terminal tells the server from the child, which ends with its request. When
// the server dies its input ends, and so does the child.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
