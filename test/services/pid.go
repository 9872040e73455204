package services

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	"example.org/smartdrive/internal/base/filelock"
)

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked")

// lock opens a file and locks it exclusively, or fails with errLocked. A child process that
// inherits the file also holds the lock.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	held, err := filelock.Try(f)
	if held || err != nil {
		f.Close()
		return nil, cmp.Or(err, errLocked)
	}
	return f, nil
}

// closeNow closes a file or listener that children must not inherit. It waits for concurrent forks,
// because between fork and exec a child has every open file of this process, with its locks and
// ports.
func closeNow(c io.Closer) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = c.Close() // nothing was written
}

// writePID writes the process id to the file.
func writePID(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write the process id: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0); err != nil {
		return fmt.Errorf("write the process id: %w", err)
	}
	return nil
}

// readPID reads a process id; 0 if there is none.
func readPID(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	return pid
}
