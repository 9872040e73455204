package wholesync

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Can reports whether Sync makes what lies in dir durable, and tells of bytes that could not be
// written: the kernel does so from 5.8 on, for file systems that write to disks themselves. For
// others, such as those in user space, syncfs(2) may return without asking anybody.
func Can(dir *os.File) bool {
	var fs unix.Statfs_t
	var name unix.Utsname
	if unix.Fstatfs(int(dir.Fd()), &fs) != nil || unix.Uname(&name) != nil {
		return false
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC:
	default:
		return false
	}
	major, rest, _ := strings.Cut(unix.ByteSliceToString(name.Release[:]), ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, err := strconv.Atoi(major)
	n, minorErr := strconv.Atoi(minor)
	return err == nil && minorErr == nil && (m > 5 || m == 5 && n >= 8)
}

// Sync is syncfs(2): all that was written to the file system of dir.
func Sync(dir *os.File) error {
	for {
		if err := unix.Syncfs(int(dir.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
