//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try takes an exclusive lock that the kernel gives back when the process ends, however it ends.
// held is true when somebody else has it.
func Try(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// TryShared takes a lock that others may share, and gives it back with the file. held is true when
// somebody has it for himself alone.
func TryShared(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
