package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
)

// flushPiece is how many bytes of a part are handed to write-back at a time: a multiple of what
// disks like, small beside the limit.
const flushPiece = 8 << 20

// flusher starts write-back of an upload's bytes while more of them come, so that little is left
// for the sync at the end. Its goroutine lives as long as there is something to do; it holds the
// only file that is open between calls.
type flusher struct {
	d      *Dir
	path   string
	failed func(error) // is told of an error that later syncs may not see again

	mu       sync.Mutex
	queue    []span // to be started
	started  []span // on their way to the disk, oldest first
	dirty    int64  // bytes in both
	running  bool
	stopping bool
	changed  chan struct{} // closed when one of these changes, if somebody waits
}

// add hands a written range over. While more than the limit is dirty it waits, but not longer than
// ctx.
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

// stop ends the goroutine and forgets what it had to do. It is for those who sync next.
func (f *flusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopping = true
	for f.running {
		f.waitLocked(nil)
	}
	f.queue, f.started, f.dirty, f.stopping = nil, nil, 0, false
}

func (f *flusher) isRunning() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.running
}

func (f *flusher) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queue, f.started, f.dirty = nil, nil, 0
}

// waitLocked waits for the next change.
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

func (f *flusher) changeLocked() {
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *flusher) run() {
	err := f.work()
	if err != nil {
		f.forget()
		f.failed(fmt.Errorf("write back: %w", err))
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	// What came since work looked last must not lie until the next add.
	if len(f.queue) > 0 && !f.stopping {
		f.d.flushers.Go(f.run)
		return
	}
	f.running = false
	f.changeLocked()
}

func (f *flusher) work() error {
	file, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		f.forget()
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

// next returns a range to start, or, when too much is on its way, the ranges of which the oldest is
// to be waited for.
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

// finished takes the n oldest ranges off.
func (f *flusher) finished(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.started[:n] {
		f.dirty -= s.len
	}
	f.started = f.started[n:]
	f.changeLocked()
}
