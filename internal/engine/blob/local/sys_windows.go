package local

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// bootID has no source here.
func bootID() string { return unknownBoot() }

// allocated returns the length: files are not made sparse here.
func allocated(info fs.FileInfo) int64 { return info.Size() }

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

// syncDir only says whether the directory is there: Windows cannot sync one, NTFS keeps the order
// of metadata in its own journal.
func syncDir(dir string) error {
	_, err := os.Stat(dir)
	return err
}

func isFull(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// mayWrite is for other systems: here the first write says it.
func mayWrite(string) error { return nil }

// missing reports whether nothing has that path.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// keepOwner does nothing: a file has the rights of its directory.
func keepOwner(*os.File) error { return nil }
