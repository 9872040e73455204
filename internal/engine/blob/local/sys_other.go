//go:build !linux

package local

import (
	"errors"
	"io"
	"os"
)

func syncData(f *os.File) error { return f.Sync() }

// syncsNames says no: directories are synced.
func syncsNames(*os.File) bool { return false }

// punch frees a range where it is the tail of the file; elsewhere the bytes stay until other ones
// come, and Held counts them.
func punch(f *os.File, s span) error { return cutTail(f, s) }

// canPack says no: what is freed of a file is not known to be free.
func canPack(*os.File) bool { return false }

// free writes zeros.
func free(f *os.File, off, n int64) error { return writeZeros(f, off, n) }

// nextData returns where the file goes on.
func nextData(f *os.File, off int64) (int64, error) {
	info, err := f.Stat()
	if err == nil && off >= info.Size() {
		err = io.EOF
	}
	return off, err
}

// reserve takes nothing: the log of small contents is used on Linux only.
func reserve(*os.File, int64, int64) error { return nil }

// cloneRange shares nothing: only Linux is asked to.
func cloneRange(*os.File, int64, *os.File, int64, int64) (cannot bool, err error) {
	return true, errors.ErrUnsupported
}

// startWriteback does nothing: only Linux can be asked for a range.
func startWriteback(*os.File, span) error { return nil }

// awaitWriteback syncs the whole file.
func awaitWriteback(f *os.File, ranges []span) (int, error) { return len(ranges), f.Sync() }

// dropCache does nothing: reads after a failed sync may come from memory here.
func dropCache(*os.File) error { return nil }
