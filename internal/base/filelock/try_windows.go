package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffset is the offset of the locked byte, far behind the text, because a Windows lock also
// prevents reading.
const lockOffset = 1 << 30

// Try acquires an exclusive lock of f without waiting; the system releases the lock when f is
// closed or the process ends. held is true, without an error, if another process has a lock: then
// Try has acquired none. So the lock is ours only if held is false and err is nil.
func Try(f *os.File) (held bool, err error) { return try(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryShared takes a shared lock without waiting; closing f releases it. held reports that another
// process has an exclusive lock; then TryShared took none. A file that another program has opened
// exclusively cannot be opened at all.
func TryShared(f *os.File) (held bool, err error) { return try(f, 0) }

// try locks a byte of f without waiting, shared or exclusive as flags say. It returns true and no
// error if another handle holds the lock in the way, false and nil if the lock is now ours, and an
// error otherwise.
func try(f *os.File, flags uint32) (held bool, err error) {
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}
