package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"smartdrive/internal/base/filelock"
)

// A status command holds the lock for a moment, to see whether it is free: an agent that starts
// just then asks again.
const (
	lockTries = 5
	lockPause = 20 * time.Millisecond
)

// takeLock makes the private directory and takes its lock, which ends with the process.
func takeLock(root *os.Root, dir string) (*os.File, error) {
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
			err = &BusyError{dir, filelock.Holder(f)}
		}
		if err == nil {
			err = filelock.Sign(f)
		}
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// running returns the process that has the lock, 0 when none has.
func running(root *os.Root) (int, error) {
	f, err := root.OpenFile(lockName, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer letGo(f)
	held, err := filelock.Try(f)
	if err != nil || !held {
		return 0, err
	}
	return max(1, filelock.Holder(f)), nil
}
