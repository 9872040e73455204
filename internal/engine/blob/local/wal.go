package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"example.org/smartdrive/internal/engine/blob/local/wal"
)

// loggedSize is the largest content that goes to the log: one that fits a small buffer.
const loggedSize = smallBuffer

// walDir holds the write-ahead log of small contents: <blobs>/wal/0 and 1.
const walDir = "wal"

// walContents lets package wal sync and restore the files of contents (wal.Contents).
type walContents struct{ d *Dir }

var _ wal.Contents = walContents{}

// Sync makes the files of contents durable, if possible by one sync of the file system. It does
// not sync files one by one after a failed file system sync, because the kernel may not report the
// lost write of a file again.
func (l walContents) Sync(names []string) error {
	if l.d.fs.supported {
		return l.d.fs.sync()
	}
	for _, name := range names {
		path, err := l.d.blobPath(name)
		if err != nil {
			continue
		}
		err = syncPath(path)
		if err == nil {
			err = l.d.syncShard(filepath.Dir(path))
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sync content: %w", err)
		}
	}
	return nil
}

// Restore writes the file of a content, without a sync. It ignores invalid names.
func (l walContents) Restore(name string, content []byte) error {
	path, err := l.d.blobPath(name)
	if err != nil {
		l.d.log.Warn("write-ahead log entry skipped: its name is not the name of a content", "name", name)
		return nil //nolint:nilerr // no row can refer to such a name
	}
	if err := l.d.makeShard(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, fileMode)
	if err != nil {
		return fmt.Errorf("restore content: %w", classify(err))
	}
	_, err = f.WriteAt(content, 0)
	if err == nil {
		err = f.Truncate(int64(len(content)))
	}
	return classify(errors.Join(err, f.Close()))
}

// Reserve allocates disk space for the n bytes of f from off, so that writing them cannot fail for
// lack of space. It fails with DiskFull.
func (walContents) Reserve(f *os.File, off, n int64) error { return classify(reserve(f, off, n)) }

// SyncData makes the bytes and length of a file durable.
func (walContents) SyncData(f *os.File) error { return syncData(f) }

// SyncDir makes the entries of a directory durable.
func (walContents) SyncDir(dir string) error { return syncDir(dir) }
