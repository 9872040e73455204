package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// flushPiece is the number of bytes of a part that are submitted to write-back at once: large for
// the disk, small compared to the dirty limit.
const flushPiece = 8 << 20

// flusher starts write-back of an upload's bytes while more arrive, so that the final sync has
// little to do. Its goroutine runs while there is work; it has the only file that is open between
// calls.
type flusher struct {
	d       *Dir
	path    string      // of the data file
	onError func(error) // called with an error that a later sync may not report again

	mu       sync.Mutex
	queue    []span        // ranges to be started
	started  []span        // ranges in write-back, oldest first
	dirty    int64         // bytes in queue and started
	running  bool          // the goroutine runs
	stopping bool          // stop is waiting
	changed  chan struct{} // closed at the next change of the state; nil if no caller waits
}

// add queues a written range for write-back. While more than the dirty limit is pending, it waits,
// at most until ctx ends.
func (f *flusher) add(ctx context.Context, s span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopping {
		return
	}
	f.queue = append(f.queue, s)
	f.dirty += s.len
	if !f.running {
		f.running = true
		f.d.flushers.Go(f.run)
	}
	for f.running && f.dirty > f.d.dirtyLimit && ctx.Err() == nil {
		f.waitLocked(ctx.Done())
	}
}

// stop ends the goroutine and clears the queue. The caller is about to sync the file itself.
func (f *flusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopping = true
	for f.running {
		f.waitLocked(nil)
	}
	f.queue, f.started, f.dirty, f.stopping = nil, nil, 0, false
}

// isRunning reports whether the goroutine that writes back runs. It may end right after.
func (f *flusher) isRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

// reset forgets all ranges: none of them is dirty or waits for write-back. It wakes nobody.
func (f *flusher) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.started, f.dirty = nil, nil, 0
}

// waitLocked waits for the next changeLocked, or until cancel is closed. The caller holds f.mu;
// waitLocked unlocks it meanwhile and returns with it locked.
func (f *flusher) waitLocked(cancel <-chan struct{}) {
	if f.changed == nil {
		f.changed = make(chan struct{})
	}
	changed := f.changed
	f.mu.Unlock()
	defer f.mu.Lock()
	select {
	case <-changed:
	case <-cancel:
	}
}

// changeLocked wakes all callers of waitLocked. The caller holds f.mu.
func (f *flusher) changeLocked() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

// run is the goroutine of the flusher: it writes back ranges until the queue is empty. After an
// error it empties the queue and calls f.onError.
func (f *flusher) run() {
	err := f.work()
	if err != nil {
		f.reset()
		f.onError(fmt.Errorf("write back: %w", err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// Ranges added since work saw an empty queue must not wait for the next add.
	if len(f.queue) > 0 && !f.stopping {
		f.d.flushers.Go(f.run)
		return
	}
	f.running = false
	f.changeLocked()
}

// work writes back the queued ranges of the file, and waits for those started before, until the
// queue is empty. If the file is gone it empties the queue and returns nil. On an error the caller
// must reset the queue.
func (f *flusher) work() error {
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) { // the upload was removed
		f.reset()
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	for {
		start, wait := f.next()
		switch {
		case start.len > 0:
			if err := startWriteback(file, start); err != nil {
				return err
			}
		case len(wait) > 0:
			done, err := awaitWriteback(file, wait)
			if err != nil {
				return err
			}
			f.finished(done)
		default:
			return nil
		}
	}
}

// next returns a range to start, or, if too much is in write-back, the ranges of which the oldest
// must finish; neither if there is nothing to do.
func (f *flusher) next() (start span, wait []span) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.stopping:
	case len(f.queue) > 0:
		start = f.queue[0]
		f.queue = f.queue[1:]
		f.started = append(f.started, start)
	case f.dirty > f.d.dirtyLimit:
		wait = f.started
	}
	return start, wait
}

// finished removes the n oldest started ranges, whose bytes are written back, subtracts them from
// the dirty bytes, and wakes waiting callers.
func (f *flusher) finished(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.started[:n] {
		f.dirty -= s.len
	}
	f.started = f.started[n:]
	f.changeLocked()
}
