//go:build !linux

package local

import (
	"errors"
	"io"
	"os"
)

// syncData makes the file durable.
func syncData(f *os.File) error { return f.Sync() }

// syncsNames returns false: directories must be synced.
func syncsNames(*os.File) bool { return false }

// punch frees the bytes of s only if s reaches to the end of the file, by truncating it. This
// system can make no holes, so otherwise it does nothing, and the bytes continue to take disk
// space.
func punch(f *os.File, s span) error { return truncateTail(f, s) }

// canPack returns false, because freed blocks may not be reusable.
func canPack(*os.File) bool { return false }

// free writes zeros.
func free(f *os.File, off, n int64) error { return writeZeros(f, off, n) }

// nextData returns off, as if the file had no holes, or io.EOF if off is at or after the end of the
// file.
func nextData(f *os.File, off int64) (int64, error) {
	info, err := f.Stat()
	if err == nil && off >= info.Size() {
		err = io.EOF
	}
	return off, err
}

// reserve does nothing: the log of small contents is used on Linux only.
func reserve(*os.File, int64, int64) error { return nil }

// cloneRange reports that this platform cannot share blocks between files: it returns true and
// errors.ErrUnsupported.
func cloneRange(*os.File, int64, *os.File, int64, int64) (cannot bool, err error) {
	return true, errors.ErrUnsupported
}

// startWriteback does nothing.
func startWriteback(*os.File, span) error { return nil }

// awaitWriteback syncs the whole file and returns the number of ranges, all of which are then
// written.
func awaitWriteback(f *os.File, ranges []span) (int, error) { return len(ranges), f.Sync() }

// dropCache does nothing: reads after a failed sync may come from memory.
func dropCache(*os.File) error { return nil }
