package local

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"smartdrive/internal/engine/blob/local/wal"
)

// loggedSize is the largest content that the log takes: one that fits into a small buffer.
const loggedSize = smallBuffer

// walDir holds the log of small contents that wait for their sync: <blobs>/wal/0 and 1.
const walDir = "wal"

// logged is how the log sees the contents of a directory.
type logged struct{ d *Dir }

var _ wal.Contents = logged{}

// Settle implements wal.Contents. After a sync of the file system has failed, each file would have
// to tell of its own bytes, which it may have forgotten by now.
func (l logged) Settle(names []string) error {
	if l.d.whole.known {
		return l.d.whole.sync()
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

// Restore implements wal.Contents.
func (l logged) Restore(name string, content []byte) error {
	path, err := l.d.blobPath(name)
	if err != nil {
		l.d.log.Warn("a name in the log is none of a content", "name", name)
		return nil //nolint:nilerr // and so is none that anybody asks for
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

// Reserve implements wal.Contents.
func (logged) Reserve(f *os.File, off, n int64) error { return classify(reserve(f, off, n)) }

// SyncData implements wal.Contents.
func (logged) SyncData(f *os.File) error { return syncData(f) }

// SyncDir implements wal.Contents.
func (logged) SyncDir(dir string) error { return syncDir(dir) }
