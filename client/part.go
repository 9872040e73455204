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

	"smartdrive/internal/base/filelock"
)

// What lies beside files on their way to this computer has names that no other file may have. H is
// the hash of the target's name, R a run of GetTree, N a number; H and R are 16 hex digits.
//
//	.smartdrive-H.part     a file that comes alone, locked while it does
//	.smartdrive-H.json     its sidecar; .json~ while that is written
//	.smartdrive-R-N.part   a small file of a stream, or a draft: a folder of such
//	.smartdrive-R.run      locked while the run lives; the folders that have had its parts
var (
	ownName = regexp.MustCompile(`(?i)^\.smartdrive-[0-9a-f]{16}(\.part|\.json~?|-[0-9]+\.part|\.run)$`) // any case: some file systems fold it
	runName = regexp.MustCompile(`^(\.smartdrive-[0-9a-f]{16})\.run$`)
)

const ownPrefix = ".smartdrive-"

// errOwnName is a name that parts, their sidecars and runs have.
var errOwnName = errors.New("smartdrive gives names of this kind to files on their way: give it another name")

// isOwn reports whether a name in a folder is one of those.
func isOwn(name string) bool { return ownName.MatchString(name) }

// notOwn refuses a name of those for anything else.
func notOwn(name string) error {
	if isOwn(name) {
		return fmt.Errorf("%q: %w", name, errOwnName)
	}
	return nil
}

// partNames returns the names of the partial file and its sidecar, in the same folder and of a
// length that every file system takes.
func partNames(name string) (part, side string) {
	sum := blake3.Sum256([]byte(filepath.Base(name)))
	base := filepath.Join(filepath.Dir(name), ownPrefix+hex.EncodeToString(sum[:8]))
	return base + ".part", base + ".json"
}

// numbered returns the name of a part of a run.
func numbered(run string, n int64) string { return run + "-" + strconv.FormatInt(n, 10) + ".part" }

// grip is what an attempt to have a file for oneself comes to.
type grip int

const (
	gripMine    grip = iota // nobody else has it, or will while it is open
	gripTaken               // somebody else has it
	gripLost                // it was opened by its name, and has not got it any more
	gripUnknown             // there are no locks here
)

// gripOn locks a file that was opened by its name. Whoever had the lock before may have renamed or
// removed the file since it was opened.
func gripOn(dir *os.Root, name string, f *os.File) (grip, error) {
	held, err := filelock.Try(f)
	switch {
	case held:
		return gripTaken, nil
	case err != nil:
		return gripUnknown, nil //nolint:nilerr // that it cannot be locked is the answer
	}
	opened, err := f.Stat()
	if err != nil {
		return gripUnknown, err
	}
	is, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return gripLost, nil
	case err != nil:
		return gripUnknown, err
	case os.SameFile(opened, is):
		return gripMine, nil
	case !is.Mode().IsRegular():
		return gripUnknown, fmt.Errorf("%s: %w", name, errNotRegular)
	}
	return gripLost, nil
}

// gripTries bounds how often a file that seems to be lost is opened again: some file systems do not
// know one again, and there are no locks there then.
const gripTries = 8

// errUnderWay is a file that another process, or another call of this one, fetches.
var errUnderWay = errors.New("another download of this file is under way")

// openPart opens the part of a file that comes alone, for this download alone. It makes it if need
// be. Where there are no locks two downloads of one file come into each other's way.
func openPart(dir *os.Root, name string) (*os.File, error) {
	for try := 1; ; try++ {
		f, err := dir.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		g, err := gripOn(dir, name, f)
		switch {
		case err == nil && g == gripTaken:
			err = errUnderWay
		case err == nil && (g != gripLost || try == gripTries):
			return f, nil
		}
		letGo(f)
		if err != nil {
			return nil, err
		}
	}
}

// sweepPart removes what an interrupted download has left of a file that is here, unless another
// download of it is under way.
func sweepPart(root *os.Root, name string) {
	part, side := partNames(name)
	if _, err := root.Lstat(part); err != nil {
		return
	}
	f, err := openPart(root, part)
	if err != nil {
		return
	}
	defer letGo(f)
	removePart(root, part, side)
}

// removePart removes a part that is held, and its sidecar first: bytes without one count for
// nothing.
func removePart(dir *os.Root, part, side string) {
	for _, name := range []string{side, side + "~", part} {
		_ = dir.Remove(name) // what stays is seen by the next download
	}
}
