package filelock

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lockOffset is where the locked byte lies: far behind the text, because Windows locks also keep
// others from reading.
const lockOffset = 1 << 30

// Try takes an exclusive lock that the system gives back when the process ends, however it ends.
// held is true when somebody else has it.
func Try(f *os.File) (held bool, err error) { return try(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// TryShared takes a lock that others may share, and gives it back with the file. held is true when
// somebody has it for himself alone. A file that a program of another kind has for itself alone
// cannot be opened here.
func TryShared(f *os.File) (held bool, err error) { return try(f, 0) }

func try(f *os.File, flags uint32) (held bool, err error) {
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}
