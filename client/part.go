package client

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/filelock"
)

// Names of temporary files beside a download's target; no other file may have such a name. H is the
// hash of the target's name, R a run of GetTree, N a number; H and R are 16 hex digits.
//
//	.smartdrive-H.part     partial file of a single download, locked while it runs
//	.smartdrive-H.json     its sidecar; .json~ while being written
//	.smartdrive-R-N.part   part of a run: a small file, or a draft (a directory of small files)
//	.smartdrive-R.run      run file, locked while the run lives: the folders with its parts
var (
	tempName    = regexp.MustCompile(`(?i)^\.smartdrive-[0-9a-f]{16}(\.part|\.json~?|-[0-9]+\.part|\.run)$`) // case-insensitive, as some file systems are
	runFileName = regexp.MustCompile(`^(\.smartdrive-[0-9a-f]{16})\.run$`)
)

// tempPrefix starts the names of all temporary files.
const tempPrefix = ".smartdrive-"

// errTempName reports a file name that is reserved for temporary files.
var errTempName = errors.New("smartdrive gives names of this kind to files on their way: give it another name")

// isTempName reports whether a local file name has the form that downloads use for temporary files.
func isTempName(name string) bool { return tempName.MatchString(name) }

// checkNotTempName returns errTempName, wrapped with the name, if the name is reserved for
// temporary files; else nil.
func checkNotTempName(name string) error {
	if isTempName(name) {
		return fmt.Errorf("%q: %w", name, errTempName)
	}
	return nil
}

// partNames returns the paths of the partial file and the sidecar for a target. They lie in the
// target's folder; their names are short enough for every file system.
func partNames(name string) (part, side string) {
	sum := blake3.Sum256([]byte(filepath.Base(name)))
	base := filepath.Join(filepath.Dir(name), tempPrefix+hex.EncodeToString(sum[:8]))
	return base + ".part", base + ".json"
}

// runPartName returns the name of part n of a run.
func runPartName(run string, n int64) string { return run + "-" + strconv.FormatInt(n, 10) + ".part" }

// lockResult is the outcome of an attempt to lock a file exclusively.
type lockResult int

const (
	lockAcquired    lockResult = iota // locked until the file is closed
	lockHeld                          // another process holds the lock
	lockStale                         // the open file is no longer the one at its name
	lockUnsupported                   // the file system does not support locks
)

// tryLock locks an open file without waiting, and then checks that the file is still the one at
// name: the previous lock holder may have renamed or removed it in the meantime. lockHeld: another
// process holds the lock; lockStale: the caller opens the name again; lockUnsupported: the file
// system cannot lock. It fails if the file cannot be examined or the name is no regular file.
func tryLock(dir *os.Root, name string, f *os.File) (lockResult, error) {
	held, err := filelock.Try(f)
	switch {
	case held:
		return lockHeld, nil
	case err != nil:
		return lockUnsupported, nil //nolint:nilerr // lockUnsupported is the answer
	}
	opened, err := f.Stat()
	if err != nil {
		return lockUnsupported, err
	}
	is, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return lockStale, nil
	case err != nil:
		return lockUnsupported, err
	case os.SameFile(opened, is):
		return lockAcquired, nil
	case !is.Mode().IsRegular():
		return lockUnsupported, fmt.Errorf("%s: %w", name, errNotRegular)
	}
	return lockStale, nil
}

// maxLockTries bounds how often openPart reopens a file after lockStale. Some file systems never
// recognize an open file; locks are useless there.
const maxLockTries = 8

// errInProgress reports that another process, or another call in this one, is downloading the same
// file.
var errInProgress = errors.New("another download of this file is under way")

// openPart opens the partial file of a single download, creating it if missing, and locks it until
// the caller closes it. It returns errInProgress if another download holds the lock. On file
// systems without locks, two downloads of one file are not kept apart.
func openPart(dir *os.Root, name string) (*os.File, error) {
	for try := 1; ; try++ {
		f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		g, err := tryLock(dir, name, f)
		switch {
		case err == nil && g == lockHeld:
			err = errInProgress
		case err == nil && (g != lockStale || try == maxLockTries):
			return f, nil
		}
		closeQuietly(f)
		if err != nil {
			return nil, err
		}
	}
}

// removeStalePart deletes the partial file and sidecar of an interrupted download of a file that is
// complete, unless a download is in progress.
func removeStalePart(root *os.Root, name string) {
	part, side := partNames(name)
	if _, err := root.Lstat(part); err != nil {
		return
	}
	f, err := openPart(root, part)
	if err != nil {
		return
	}
	defer closeQuietly(f)
	removePart(root, part, side)
}

// removePart deletes a locked partial file. It deletes the sidecar first, because a partial file
// without sidecar counts as empty.
func removePart(dir *os.Root, part, side string) {
	for _, name := range []string{side, side + "~", part} {
		_ = dir.Remove(name) // the next download handles leftovers
	}
}
