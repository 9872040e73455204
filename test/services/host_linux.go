package services

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// detached is a process of its own session: ^C at the one who has started it is not for it.
func detached(bound bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if bound {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// paused tells whether every thread of a process stands still: the signal that stops them arrives
// at each in its own time.
func paused(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil { // it has ended
			continue
		}
		// proc_pid_stat(5): pid (comm) state ...; comm may hold anything
		if _, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " "); !strings.HasPrefix(state, "T") {
			return false, nil
		}
	}
	return true, nil
}
