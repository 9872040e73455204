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

	"smartdrive/internal/base/wholesync"
	"smartdrive/internal/engine/blob"
)

// Many small files that become durable together. The naive way syncs each: a thousand files wait a
// thousand times for the disk. Here they are written first, and then one of these is done:
//
//	contents of up to 32 KiB   they lie in packs, each of which is one file
//	where there are no packs   the log has them, and is synced, once for all who ask meanwhile, unless
//	                           they are of a batch
//	many files                 the whole file system is synced, in the same way
//	few files, or a system     each file is synced, several at a time, and then each directory once
//	that cannot do better
//
// A sync of the file system also waits for what others have written there, which is why a few files
// do not ask for it, and those that come alone do without it for a while after one that took long.
// The log needs it later, and nobody waits then.

const (
	wholeFrom  = 64 // files that are worth a sync of the file system
	aloneFrom  = 4  // the same, of files that come alone and wait for the disk at the same time
	loggedFrom = 2  // those that are worth a record in the log: one alone waits for one sync either way
	syncers    = 16 // files that are synced at a time
)

// A sync of the file system that took longer than slowSync is not repeated for files that come
// alone before restAfter times as long has passed: there is much else to write.
const (
	slowSync  = 50 * time.Millisecond
	restAfter = 20
)

// syncNew makes a new file and its name durable; small is what it has, if that is little. Those
// that wait for the disk at the same time share a sync.
func (d *Dir) syncNew(f *os.File, name string, small []byte) error {
	waiting := d.syncing.Add(1)
	defer d.syncing.Add(-1)
	if waiting >= loggedFrom && small != nil && d.whole.able() {
		if d.wal.Add(name, small); len(d.wal.Sync(name)) == 0 {
			return nil
		}
	}
	if waiting >= aloneFrom && d.whole.quick() {
		return d.whole.sync()
	}
	if d.named { // by the sync of the file
		return syncData(f)
	}
	named := make(chan error, 1)
	go func() { named <- d.syncShard(filepath.Dir(f.Name())) }()
	return errors.Join(syncData(f), <-named)
}

// Lay implements blob.Store. What is torn by a crash no row names: see Put.
func (s *Store) Lay(ctx context.Context, name string, body blob.Body, many bool) (blob.Part, error) {
	if at, ok := blob.SlotOf(name); ok {
		if part, done, err := s.layInPack(ctx, at, body); err != nil {
			return blob.Part{}, fmt.Errorf("lay: %w", classify(err))
		} else if done {
			return part, nil
		}
	}
	return s.store(ctx, name, body, func(_ *os.File, small []byte) error {
		if !many && small != nil && s.d.whole.able() {
			s.d.wal.Add(name, small)
		}
		return nil
	})
}

// Settle implements blob.Store.
func (s *Store) Settle(ctx context.Context, names []string) error {
	err := s.settle(ctx, names)
	if err == nil {
		err = s.d.inPlace()
	}
	if err != nil {
		return fmt.Errorf("settle %d contents: %w", len(names), classify(err))
	}
	return nil
}

func (s *Store) settle(ctx context.Context, names []string) error {
	names, err := s.d.packs.Sync(names)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, s.inSlot) // of a pack that was full: it is durable
	names = s.d.wal.Sync(names...)
	if len(names) >= wholeFrom && s.d.whole.able() {
		return s.d.whole.sync()
	}
	return s.settleEach(ctx, names)
}

func (s *Store) settleEach(ctx context.Context, names []string) error {
	dirs := map[string]bool{}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(syncers)
	for _, name := range names {
		path, err := s.d.blobPath(name)
		if err != nil {
			return errors.Join(err, g.Wait())
		}
		if !s.d.named {
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

// wholeSync syncs the file system of a directory. Whoever asks while a sync runs shares the next
// one: that begins after all of them have written.
//
// The system tells of bytes that could not be written once, to the first caller. So after one
// error nobody asks for the whole any more: each file is asked for, which tells of its own.
type wholeSync struct {
	dir   *os.File         // opened before anything is laid: it is told of what fails from then on
	known bool             // the system can
	now   func() time.Time // monotonic: a clock that is set must not make a sync long

	shared wholesync.Shared

	mu    sync.Mutex // guards what follows
	bad   bool
	rests time.Time // until then files that come alone do without it
}

func (w *wholeSync) open(dir string) (err error) {
	w.now = time.Now
	if w.dir, err = os.Open(dir); err == nil {
		w.known = wholesync.Can(w.dir)
	}
	return err
}

func (w *wholeSync) close() error {
	dir := w.dir
	if dir == nil {
		return nil
	}
	w.dir = nil
	return dir.Close()
}

func (w *wholeSync) able() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known && !w.bad
}

// quick reports whether a sync can be had and will not take long, by what the last one took.
func (w *wholeSync) quick() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known && !w.bad && !w.now().Before(w.rests)
}

func (w *wholeSync) sync() error {
	return w.shared.Do(func() error {
		if !w.able() {
			return errDistrusted
		}
		began := w.now()
		err := wholesync.Sync(w.dir)
		w.took(began, err)
		return err
	})
}

// took notes how a sync went.
func (w *wholeSync) took(began time.Time, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.bad = w.bad || err != nil
	if ended := w.now(); ended.Sub(began) > slowSync {
		w.rests = ended.Add(restAfter * ended.Sub(began))
	}
}

// errDistrusted is the error of those who waited for a sync while the one before it failed: what it
// failed about may be theirs.
var errDistrusted = errors.New("a sync of the file system has failed")
