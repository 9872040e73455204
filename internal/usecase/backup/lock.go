package backup

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"smartdrive/internal/base/filelock"
)

// lockFile lies in a backup and stays: who has locked it works on the backup. A run has it for
// itself alone, since it deletes what the backup before has needed; restores share it.
const lockFile = "backup.lock"

const busy = "another backup into this directory is running, or a restore from it: wait until it has ended"

// lockBackup takes a backup for a run, until the file is closed. Where the file system has no locks
// the run goes on without.
func lockBackup(dir string, log *slog.Logger) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, refused(err.Error())
	}
	held, err := filelock.Try(f)
	if held {
		return nil, errors.Join(refused(busy), f.Close())
	}
	if err != nil {
		log.Warn("The directory of the backup has no locks: nothing keeps two backups apart that run at once.", "directory", dir, "error", err)
	}
	return f, nil
}

// keepBackup keeps runs from changing a backup, until the file is closed: nil where there is no
// lock, as in a backup of an older program, or where it cannot be had, as on a medium that is
// read-only.
func keepBackup(dir string) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if held, _ := filelock.TryShared(f); held {
		return nil, errors.Join(errors.New(busy), f.Close())
	}
	return f, nil
}
