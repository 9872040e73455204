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
func Try(f *os.File) (held bool, err error) {
	const flags = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{Offset: lockOffset})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return true, nil
	}
	return false, err
}

// TryShared says nothing here: a file that another program has for itself alone cannot be opened.
func TryShared(*os.File) (held bool, err error) { return false, nil }
