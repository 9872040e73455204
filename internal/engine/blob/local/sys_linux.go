package local

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"smartdrive/internal/engine/blob/local/pack"
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

// canPack reports whether blocks of 4 KiB of a file in dir can be freed for good. Btrfs frees what
// was written at once when nothing of it is left.
func canPack(dir *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &st) != nil || st.Bsize > pack.Block {
		return false
	}
	switch st.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// free gives a range back to the disk, also where files lie that were brought from another one that
// does not know how: it has zeros then.
func free(f *os.File, off, n int64) error {
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	err := noEINTR(func() error { return unix.Fallocate(int(f.Fd()), mode, off, n) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return writeZeros(f, off, n)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// nextData returns where the next bytes are that may not be zeros (lseek(2), SEEK_DATA).
func nextData(f *os.File, off int64) (int64, error) {
	at, err := f.Seek(off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, io.EOF
	}
	return at, err
}

// reserve takes room for a range that is not written yet. Where the file system cannot, there is
// none.
func reserve(f *os.File, off, n int64) error {
	err := noEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, off, n) })
	if err == nil || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
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
