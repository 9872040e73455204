package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/wholesync"
	"example.org/smartdrive/internal/engine/blob"
)

// Making many small files durable. Syncing each of them costs one wait for the disk per file.
// Instead, all files are written first, and then made durable in one of these ways:
//
//	contents of up to 32 KiB   are stored in packs, each of which is one file to sync
//	without packs              contents go to the write-ahead log, which is synced once for all concurrent callers;
//	                           batches do not use the log
//	many files                 the whole file system is synced, once for all concurrent callers
//	otherwise                  files are synced concurrently, and then each directory once
//
// A file system sync also waits for the writes of other processes. Therefore few files do not
// trigger one, and single files avoid it for a while after a slow one. The log needs a file system
// sync later, in the background.

const (
	fsSyncMinBatch     = 64 // files of a batch from which on the file system is synced
	fsSyncMinSingle    = 4  // concurrent single files from which on the file system is synced
	logMinSingle       = 2  // concurrent single files from which on the log is used; one alone waits for one sync either way
	maxConcurrentSyncs = 16 // concurrent file syncs
)

// After a file system sync that took longer than slowSync, single files do not trigger another one
// until slowSyncPause times its duration has passed, because there is much else to write.
const (
	slowSync      = 50 * time.Millisecond
	slowSyncPause = 20
)

// syncNew makes the bytes and the name of a new file durable. small is its content if that fits the
// write-ahead log, else nil. If many calls run at once, it writes small to the log or syncs the
// whole file system instead of the file, so that they share one sync.
func (d *Dir) syncNew(f *os.File, name string, small []byte) error {
	waiting := d.pendingSyncs.Add(1)
	defer d.pendingSyncs.Add(-1)
	if waiting >= logMinSingle && small != nil && d.fs.usable() {
		if d.wal.Add(name, small); len(d.wal.Sync(name)) == 0 {
			return nil
		}
	}
	if waiting >= fsSyncMinSingle && d.fs.usableNow() {
		return d.fs.sync()
	}
	if d.syncCoversName { // the file's sync covers the name
		return syncData(f)
	}
	named := make(chan error, 1)
	go func() { named <- d.syncShard(filepath.Dir(f.Name())) }()
	return errors.Join(syncData(f), <-named)
}

// PutUnsynced stores new content without the final sync; the caller must Sync it. A crash may leave
// torn content, but no row refers to it; see Put.
func (s *Store) PutUnsynced(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	if at, ok := blob.SlotOf(name); ok {
		if part, done, err := s.putInPack(ctx, at, body); err != nil {
			return blob.Part{}, fmt.Errorf("lay: %w", classify(err))
		} else if done {
			return part, nil
		}
	}
	return s.store(ctx, name, body, func(_ *os.File, small []byte) error {
		if !many && small != nil && s.d.fs.usable() {
			s.d.wal.Add(name, small)
		}
		return nil
	})
}

// Sync makes contents that PutUnsynced stored durable, names included (blob.Store). It also fails
// if the directory is not mounted anymore. After an error the caller cannot tell which of them are
// durable.
func (s *Store) Sync(ctx context.Context, names []string) error {
	err := s.settle(ctx, names)
	if err == nil {
		err = s.d.checkMounted()
	}
	if err != nil {
		return fmt.Errorf("settle %d contents: %w", len(names), classify(err))
	}
	return nil
}

// settle makes contents durable: those in packs by syncing the packs, those in the log by a sync of
// the log, and the rest file by file, or by a sync of the file system if they are many. It returns
// the first error.
func (s *Store) settle(ctx context.Context, names []string) error {
	names, err := s.d.packs.Sync(names)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, s.isPacked) // contents of full packs are durable already
	names = s.d.wal.Sync(names...)
	if len(names) >= fsSyncMinBatch && s.d.fs.usable() {
		return s.d.fs.sync()
	}
	return s.settleEach(ctx, names)
}

// settleEach makes files durable by syncing each of them, at most maxConcurrentSyncs at once, and
// each directory of theirs unless syncing a file also makes its name durable. It returns the first
// error, after which it syncs no more files; the caller cannot tell which of them are durable.
func (s *Store) settleEach(ctx context.Context, names []string) error {
	dirs := map[string]bool{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(maxConcurrentSyncs)
	for _, name := range names {
		path, err := s.d.blobPath(name)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		if !s.d.syncCoversName {
			dirs[filepath.Dir(path)] = true
		}
		g.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return syncPath(path)
		})
	}
	for dir := range dirs {
		g.Go(func() error { return s.d.syncShard(dir) })
	}
	return g.Wait()
}

// fsSync syncs the file system of a directory. Concurrent callers share the next sync, which
// begins after all of them have written.
//
// The system reports a failed write-back once, to the first caller. After one error fsSync is
// therefore not used any more, and each file is synced, which reports its own errors.
type fsSync struct {
	dir       *os.File         // opened before any write, so that it gets the errors of all later writes
	supported bool             // the system supports it
	now       func() time.Time // monotonic, so that setting the clock does not make a sync look slow

	shared wholesync.Shared

	mu          sync.Mutex // guards what follows
	failed      bool       // a sync has failed
	pausedUntil time.Time  // until then single files do not use it
}

// open opens dir, which close closes, and sets f.supported to whether the system can sync its file
// system as a whole.
func (f *fsSync) open(dir string) (err error) {
	f.now = time.Now
	if f.dir, err = os.Open(dir); err == nil {
		f.supported = wholesync.Supported(f.dir)
	}
	return err
}

// close closes the directory. It may be called more than once.
func (f *fsSync) close() error {
	dir := f.dir
	if dir == nil {
		return nil
	}
	f.dir = nil
	return dir.Close()
}

// usable reports whether one sync of the whole file system can replace syncs of files: the platform
// supports it and it has not failed before.
func (f *fsSync) usable() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.supported && !f.failed
}

// usableNow reports whether sync can be used and will not take long, judging by the last one.
func (f *fsSync) usableNow() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.supported && !f.failed && !f.now().Before(f.pausedUntil)
}

// sync makes everything in the file system durable; concurrent callers share a sync. It returns
// errFSSyncFailed, without trying, once a sync has failed, because a later success would not cover
// the lost writes.
func (f *fsSync) sync() error {
	return f.shared.Do(func() error {
		if !f.usable() {
			return errFSSyncFailed
		}
		began := f.now()
		err := wholesync.Sync(f.dir)
		f.record(began, err)
		return err
	})
}

// record records the result of a sync of the whole file system that began at began. An error
// disables such syncs for good; one that was slow pauses them for a multiple of its duration.
func (f *fsSync) record(began time.Time, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failed = f.failed || err != nil
	if ended := f.now(); ended.Sub(began) > slowSync {
		f.pausedUntil = ended.Add(slowSyncPause * ended.Sub(began))
	}
}

// errFSSyncFailed is returned to callers that waited while the sync before theirs failed, because
// the lost write may have been theirs.
var errFSSyncFailed = errors.New("a sync of the file system has failed")
