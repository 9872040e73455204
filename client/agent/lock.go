package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"example.org/smartdrive/internal/base/filelock"
)

// A starting agent retries the lock, because ReadStatus holds it for a moment to test it.
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// acquireLock creates the private directory and locks it; the lock ends with the process. It
// returns a *BusyError if another agent holds the lock.
func acquireLock(root *os.Root, dir string) (*os.File, error) {
	if err := root.Mkdir(privateDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the agent's directory: %w", err)
	}
	f, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the agent's lock: %w", err)
	}
	for try := 1; ; try++ {
		held, err := filelock.Try(f)
		if err == nil && held && try < lockTries {
			time.Sleep(lockPause)
			continue
		}
		if err == nil && held {
			err = &BusyError{dir, filelock.ReadPID(f)}
		}
		if err == nil {
			err = filelock.WritePID(f)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// lockHolder returns the process that holds the lock, 0 if none does, and 1 if it is unknown. It
// fails with fs.ErrNotExist if there never was an agent.
func lockHolder(root *os.Root) (int, error) {
	f, err := root.OpenFile(lockName, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer closeQuietly(f)
	held, err := filelock.Try(f)
	if err != nil || !held {
		return 0, err
	}
	return max(1, filelock.ReadPID(f)), nil
}
