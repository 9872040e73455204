//go:build unix

package filelock

import (
	"errors"
	"os"
	"syscall"
)

// Try acquires an exclusive lock of f without waiting; the kernel releases the lock when f is
// closed or the process ends. held is true, without an error, if another process has a lock: then
// Try has acquired none. So the lock is ours only if held is false and err is nil.
func Try(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}

// TryShared takes a shared lock without waiting; closing f releases it. held reports that another
// process has an exclusive lock; then TryShared took none.
func TryShared(f *os.File) (held bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return true, nil
	}
	return false, err
}
