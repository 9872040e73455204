package local

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID returns the id that the kernel drew when it started.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return unknownBoot()
	}
	return strings.TrimSpace(string(b))
}

// syncData is fdatasync(2): the bytes and the length, without times.
func syncData(f *os.File) error {
	return noEINTR(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// syncsWhole reports whether syncWhole makes what lies in dir durable, and tells of bytes that
// could not be written: the kernel does so from 5.8 on, for file systems that write to disks
// themselves. For others, such as those in user space, syncfs(2) may return without asking anybody.
func syncsWhole(dir *os.File) bool {
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

// syncsNames reports whether a sync of a new file in dir makes its name durable as well, so that
// the directory need not be synced. POSIX does not say so. An ext4 with a journal does it: the name
// is in the transaction of the journal that made the file, and the file's sync waits for that one.
// The kernel says in /sys whether there is a journal. Other file systems may do it, too; they were
// not tried.
func syncsNames(dir *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task")) // of the thread that writes it
	if err == nil {
		_, err = strconv.Atoi(strings.TrimSpace(string(task))) // else "<none>"
	}
	return err == nil
}

// syncWhole is syncfs(2): all that was written to the file system of dir.
func syncWhole(dir *os.File) error {
	return noEINTR(func() error { return unix.Syncfs(int(dir.Fd())) })
}

// punch frees a range. Its file system may not know how: then the tail is cut off where the range
// is the tail, and else the bytes stay, which Held counts.
func punch(f *os.File, s span) error {
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	err := noEINTR(func() error { return unix.Fallocate(int(f.Fd()), mode, s.off, s.len) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return cutTail(f, s)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// cloneRange makes bytes of to those of from, shared on the disk (ioctl_ficlonerange(2)). cannot:
// nor will it for other ranges.
func cloneRange(to *os.File, at int64, from *os.File, off, n int64) (cannot bool, err error) {
	err = noEINTR(func() error {
		return unix.IoctlFileCloneRange(int(to.Fd()), &unix.FileCloneRange{
			Src_fd: int64(from.Fd()), Src_offset: uint64(off), Src_length: uint64(n), Dest_offset: uint64(at),
		})
	})
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EXDEV), err
}

// startWriteback asks for a range to be written and does not wait.
func startWriteback(f *os.File, s span) error {
	return noEINTR(func() error { return unix.SyncFileRange(int(f.Fd()), s.off, s.len, unix.SYNC_FILE_RANGE_WRITE) })
}

// awaitWriteback waits for the oldest of ranges, which are not empty, and returns how many it has
// waited for. sync_file_range makes nothing durable, for it flushes neither metadata nor the disk's
// cache; the sync that follows does.
func awaitWriteback(f *os.File, ranges []span) (int, error) {
	const flags = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := noEINTR(func() error { return unix.SyncFileRange(int(f.Fd()), ranges[0].off, ranges[0].len, flags) })
	return 1, err
}

// dropCache makes the next reads come from the disk as far as the kernel lets it; dirty pages stay.
func dropCache(f *os.File) error {
	return noEINTR(func() error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) })
}

func noEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}
