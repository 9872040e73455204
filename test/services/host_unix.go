//go:build unix

package services

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
)

// waitLock waits for an exclusive lock on f.
func waitLock(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return nil
}

// kill sends a signal; a process that has ended is not an error.
func kill(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal a service: %w", err)
	}
	return nil
}
