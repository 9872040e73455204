package backup

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/filelock"
)

// lockFile is the lock file of a backup, which is never deleted. A run locks it exclusively,
// because it deletes files of the previous backup; restores share the lock.
const lockFile = "backup.lock"

// busyReason is the reason for refusing a locked backup.
const busyReason = "another backup into this directory is running, or a restore from it: wait until it has ended"

// lockBackup locks a backup exclusively until the file is closed. If it is locked already, it
// returns WrongState. If the file system has no locks, it logs a warning and continues.
func lockBackup(dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, refuse(err.Error())
	}
	held, err := filelock.Try(f)
	if held {
		return nil, errors.Join(refuse(busyReason), f.Close())
	}
	if err != nil {
		log.Warn("the backup directory does not support locks; do not run two backups into it at once", "directory", dir, "error", err)
	}
	return f, nil
}

// lockForReading takes a shared lock on a backup, held until the returned file is closed. It fails
// if a backup is being written to dir. File and error are nil if there is no lock file, as in
// backups of older releases, or no permission to open it. On a file system without locks the file
// is returned unlocked.
func lockForReading(dir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if held, _ := filelock.TryShared(f); held {
		return nil, errors.Join(errors.New(busyReason), f.Close())
	}
	return f, nil
}
