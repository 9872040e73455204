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

	"smartdrive/internal/base/filelock"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked")

// lock opens a file and takes its lock, or says errLocked. A child that inherits the file holds the
// lock, too.
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

// closeNow closes what children that are being started must not have for even a moment: between
// fork and exec a child has every open file of this process, and with it its locks and ports.
func closeNow(c io.Closer) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	_ = c.Close() // nothing was written
}

func writePID(f *os.File, pid int) error {
	if err := f.Truncate(0); err != nil {
		return fmt.Errorf("write the process id: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(pid)+"\n"), 0); err != nil {
		return fmt.Errorf("write the process id: %w", err)
	}
	return nil
}

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
