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

// blockUnit is the unit of st_blocks in bytes, regardless of the file system's block size
// (stat(2)).
const blockUnit = 512

// allocated returns the number of bytes that a file occupies on disk.
func allocated(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Blocks * blockUnit
	}
	return info.Size()
}

// freeBytes returns the bytes available to this user in the file system of dir.
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

// notExist reports whether path does not exist. Unlike Lstat it allocates nothing.
func notExist(path string) bool { return unix.Access(path, unix.F_OK) == unix.ENOENT } //nolint:errorlint // a bare errno

// checkWritable returns an error if this process may not create files in dir.
func checkWritable(dir string) error { return unix.Access(dir, unix.W_OK) }

// isFull reports whether err means a full disk or an exceeded quota.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// inheritOwner gives a file created by root the owner of its directory. It does nothing if root may
// not change owners, as in some containers or on shares without owners.
func inheritOwner(f *os.File) error {
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
