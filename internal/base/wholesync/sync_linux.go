package wholesync

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Supported reports whether Sync makes the files in dir durable and reports failed writes. That
// holds from kernel 5.8 on, for file systems that write to disks themselves. For others, such as
// FUSE, syncfs(2) may do nothing.
func Supported(dir *os.File) bool {
	var fs unix.Statfs_t
	var name unix.Utsname
	if unix.Fstatfs(int(dir.Fd()), &fs) != nil || unix.Uname(&name) != nil {
		return false
	}
	switch uint32(fs.Type) { //nolint:gosec // a magic number, of which some architectures keep 32 bits with a sign
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

// SameFileSystem reports whether a Sync of dir also covers other: they are on the same file system.
func SameFileSystem(dir *os.File, other os.FileInfo) bool {
	info, err := dir.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	to, too := other.Sys().(*syscall.Stat_t)
	return ok && too && is.Dev == to.Dev
}

// Sync makes everything written to the file system that contains dir durable (syncfs(2)). It waits
// for the disk and reports write errors since dir was opened.
func Sync(dir *os.File) error {
	for {
		if err := unix.Syncfs(int(dir.Fd())); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
