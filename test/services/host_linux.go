package services

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// detached starts the process in its own session, so that ^C does not reach it. With bound it ends
// with the starting thread.
func detached(bound bool) *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if bound {
		attr.Pdeathsig = syscall.SIGKILL
	}
	return attr
}

// paused reports whether every thread of a process is stopped. The stop signal reaches threads at
// different times.
func paused(pid int) (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		return false, err
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil { // the process has ended
			continue
		}
		// proc_pid_stat(5): pid (comm) state ...; comm may contain anything
		if _, state, _ := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " "); !strings.HasPrefix(state, "T") {
			return false, nil
		}
	}
	return true, nil
}
