package app

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/base/filelock"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Files of the data directory besides the blobs:
//
//	<data>/smartdrive.db      the database, with -wal and -shm beside it
//	<data>/lock               held by the process that serves; its text is that process's id
//	<data>/admin.sock         where "smartdrive admin" reaches it
//	<data>/initial-password   of the first user, until it is changed
//	<data>/secret.key         seals what opens links in the database; in no backup
//	<data>/ballast            deleted when the disk is full, so that deletes can commit
//	<data>/thumbs/            thumbnails, at most 512 MiB; may be deleted at any time
//	<data>/backups/           nightly snapshots of the database
const (
	databaseFile = "smartdrive.db"
	lockFile     = "lock"
	socketFile   = "admin.sock"
	passwordFile = "initial-password"
	keyFile      = "secret.key"
	ballastFile  = "ballast"
	thumbsDir    = "thumbs"
	spaceFile    = "room" // of ensureSpace; a crash may leave it, the next start removes it
)

// LockedError reports that another process uses the data directory.
type LockedError struct {
	Dir string
	PID int // 0 if unknown
}

// Error names the data directory and, if it is known, the process that uses it.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("the data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("the data directory %s is in use by process %d", e.Dir, e.PID)
}

// lockDir creates the data directory if it is missing, readable by its owner only, and locks it. It
// fails with *LockedError if another process holds the lock, and if the disk is too full to start.
// The caller closes the file to unlock.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, explainUnwritable(fmt.Errorf("make the data directory %s: %w", dir, err), dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs x
		return nil, explainUnwritable(fmt.Errorf("protect the data directory: %w", err), dir)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the lock of the data directory: %w", err)
	}
	held, err := filelock.Try(f)
	if err == nil && held {
		err = &LockedError{Dir: dir, PID: filelock.ReadPID(f)}
	}
	if err == nil {
		err = ensureSpace(dir)
	}
	if err == nil {
		err = filelock.WritePID(f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// startSpace is the disk space in bytes that opening the database needs: shared memory, a few
// commits, the mark of the blobs.
const startSpace = 256 << 10 // bytes

// ensureSpace deletes the ballast if the disk is too full to open the database. A server must start
// on a full disk, so that users can read and delete. It fails if there is no space even then.
func ensureSpace(dir string) error {
	if hasSpace(dir) {
		return nil
	}
	dropBallast(dir)
	if hasSpace(dir) {
		return nil
	}
	return fmt.Errorf("the data directory %s cannot be written, or its disk is full: it needs some MiB", dir)
}

// hasSpace reports whether startSpace bytes can be written to a directory. It writes and deletes a
// file; any failure gives false.
func hasSpace(dir string) bool {
	path := filepath.Join(dir, spaceFile)
	return errors.Join(fillFile(path, startSpace), os.Remove(path)) == nil
}

// ballastSize is the largest growth of the database's log before it is emptied, plus some space, so
// that deletes always fit.
const ballastSize = sqldb.LogSize + 4<<20 // bytes

// placeBallast writes the ballast file unless it exists in full size. On failure it removes what it
// has written.
func placeBallast(dir string) error {
	path := filepath.Join(dir, ballastFile)
	if info, err := os.Stat(path); err == nil && info.Size() == ballastSize {
		return nil
	}
	if err := fillFile(path, ballastSize); err != nil {
		return errors.Join(fmt.Errorf("write the ballast: %w", err), os.Remove(path))
	}
	return nil
}

// fillFile writes random bytes, because a disk that compresses or stores holes would not reserve
// space for others. It replaces an existing file and fails with an error of the file system, such
// as a full disk.
func fillFile(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{}), size)
	return errors.Join(err, f.Close())
}

// dropBallast deletes the ballast file of the data directory, so that the database can write on a
// full disk. It ignores errors.
func dropBallast(dir string) { _ = os.Remove(filepath.Join(dir, ballastFile)) } // an error means that it is gone already
