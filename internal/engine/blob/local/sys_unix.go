//go:build linux || darwin

package local

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// blockUnit is the unit of st_blocks, in bytes, whatever the file system's blocks are (stat(2)).
const blockUnit = 512

// allocated returns the bytes that a file takes on disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockUnit
	}
	return info.Size()
}

func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // the types differ between systems
}

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// missing reports whether nothing has that path. Nothing is allocated for an error, as Lstat does.
func missing(path string) bool { return unix.Access(path, unix.F_OK) == unix.ENOENT } //nolint:errorlint // a bare errno

// mayWrite reports an error if this process may not make files in a directory.
func mayWrite(dir string) error { return unix.Access(dir, unix.W_OK) }

func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// keepOwner gives a file that root has made the owner of its directory, where root may: a container
// without that right, or a share that knows no owners, keeps root's.
func keepOwner(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(filepath.Dir(f.Name()))
	if err != nil {
		return err
	}
	dir, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	err = f.Chown(int(dir.Uid), int(dir.Gid))
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		return nil
	}
	return err
}
