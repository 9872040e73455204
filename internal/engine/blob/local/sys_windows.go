package local

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// bootID returns a random id: Windows has none.
func bootID() string { return randomBootID() }

// allocated returns the length: files are not sparse here.
func allocated(info fs.FileInfo) int64 { return info.Size() }

// freeBytes returns the bytes available to this user on the volume of dir.
func freeBytes(dir string) (int64, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, err
	}
	return int64(free), nil
}

// syncDir only checks that dir exists: Windows cannot sync a directory, and NTFS journals its
// metadata in order.
func syncDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}

// isFull reports whether err means a full disk or an exceeded quota.
func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// checkWritable does nothing: the first write fails instead.
func checkWritable(string) error { return nil }

// notExist reports whether path does not exist; false if that cannot be found out.
func notExist(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// inheritOwner does nothing: a file inherits the rights of its directory.
func inheritOwner(*os.File) error { return nil }
