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

	"example.org/smartdrive/internal/engine/blob/local/pack"
)

// bootID returns the kernel's random boot id.
func bootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return randomBootID()
	}
	return strings.TrimSpace(string(b))
}

// syncData makes the bytes and length of f durable (fdatasync(2)).
func syncData(f *os.File) error {
	return noEINTR(func() error { return unix.Fdatasync(int(f.Fd())) })
}

// syncsNames reports whether syncing a new file in dir also makes its name durable, so that the
// directory need not be synced. POSIX does not guarantee this. An ext4 with a journal does it: the
// transaction that created the file also has its name, and the file's sync waits for that
// transaction. /sys tells whether there is a journal. Other file systems were not tested.
func syncsNames(dir *os.File) bool {
	var st unix.Stat_t
	if unix.Fstat(int(dir.Fd()), &st) != nil {
		return false
	}
	device, err := os.Readlink(fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if err != nil {
		return false
	}
	task, err := os.ReadFile(filepath.Join("/sys/fs/ext4", filepath.Base(device), "journal_task")) // id of the journal thread
	if err == nil {
		_, err = strconv.Atoi(strings.TrimSpace(string(task))) // "<none>" without a journal
	}
	return err == nil
}

// punch frees a range. If the file system cannot punch holes, it truncates the file if s reaches to
// its end; else the bytes stay and count as held.
func punch(f *os.File, s span) error {
	const mode = unix.FALLOC_FL_PUNCH_HOLE | unix.FALLOC_FL_KEEP_SIZE
	err := noEINTR(func() error { return unix.Fallocate(int(f.Fd()), mode, s.off, s.len) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return truncateTail(f, s)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// canPack reports whether 4 KiB blocks of a file in dir can be freed individually. Btrfs frees an
// extent only when all of it is unused.
func canPack(dir *os.File) bool {
	var st unix.Statfs_t
	if unix.Fstatfs(int(dir.Fd()), &st) != nil || st.Bsize > pack.Block {
		return false
	}
	switch uint32(st.Type) { //nolint:gosec // a magic number, of which some architectures keep 32 bits with a sign
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}

// free frees a range. If the file system cannot punch holes, it writes zeros.
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

// nextData returns the offset of the next bytes from off on that may not be zeros (lseek(2),
// SEEK_DATA), or io.EOF.
func nextData(f *os.File, off int64) (int64, error) {
	at, err := f.Seek(off, unix.SEEK_DATA)
	if errors.Is(err, unix.ENXIO) {
		return 0, io.EOF
	}
	return at, err
}

// reserve allocates disk space for a range and extends the file to its end. It returns nil without
// doing so if the file system cannot.
func reserve(f *os.File, off, n int64) error {
	err := noEINTR(func() error { return unix.Fallocate(int(f.Fd()), 0, off, n) })
	if err == nil || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return nil
	}
	return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
}

// cloneRange makes n bytes of to share the disk blocks of from (ioctl_ficlonerange(2)). cannot
// reports that the file system does not support it at all.
func cloneRange(to *os.File, at int64, from *os.File, off, n int64) (cannot bool, err error) {
	err = noEINTR(func() error {
		return unix.IoctlFileCloneRange(int(to.Fd()), &unix.FileCloneRange{
			Src_fd: int64(from.Fd()), Src_offset: uint64(off), Src_length: uint64(n), Dest_offset: uint64(at),
		})
	})
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EXDEV), err
}

// startWriteback makes the kernel start writing a range of f to disk and does not wait for it. The
// bytes are not durable afterwards.
func startWriteback(f *os.File, s span) error {
	return noEINTR(func() error { return unix.SyncFileRange(int(f.Fd()), s.off, s.len, unix.SYNC_FILE_RANGE_WRITE) })
}

// awaitWriteback waits for write-back of the first of ranges and returns 1. The range is not
// durable afterwards, because sync_file_range flushes neither metadata nor the disk's cache.
func awaitWriteback(f *os.File, ranges []span) (int, error) {
	const flags = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := noEINTR(func() error { return unix.SyncFileRange(int(f.Fd()), ranges[0].off, ranges[0].len, flags) })
	return 1, err
}

// dropCache evicts the clean pages of f from the page cache, so that the next reads come from disk.
// Pages that are not written back stay cached.
func dropCache(f *os.File) error {
	return noEINTR(func() error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) })
}

// noEINTR repeats call while it is interrupted by a signal.
func noEINTR(call func() error) error {
	for {
		if err := call(); err != unix.EINTR { //nolint:errorlint // a bare errno
			return err
		}
	}
}
