package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// watch cuts an attempt off when nothing has moved for a while: a network that vanished sends no
// reset.
type watch struct {
	after  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newWatch(ctx context.Context, after time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &watch{after: after, cancel: cancel}
}

// moved notes that bytes moved; the first call starts the watch.
func (w *watch) moved() {
	if w.timer == nil {
		w.timer = time.AfterFunc(w.after, func() { w.cancel(errStalled) })
		return
	}
	w.timer.Reset(w.after)
}

// rest stops watching but leaves the attempt alive: the transport's own time-out for the reply
// takes over.
func (w *watch) rest() {
	if w.timer != nil {
		w.timer.Stop()
	}
}

// stop ends the watch and what is left of the attempt.
func (w *watch) stop() {
	w.rest()
	w.cancel(context.Canceled)
}

// upBody is the body of one attempt. The transport may go on reading for a moment after it has
// returned, so whatever comes after end is neither counted nor noted.
type upBody struct {
	size   int64
	from   io.Reader
	beside bool          // the reply may begin before all of it was sent
	count  func(n int64) // is told how many bytes moved, negative when they are taken back; may be nil

	mu    sync.Mutex
	watch *watch
	moved int64
	err   error
	ended bool
}

// Read implements io.Reader. A source that ends early is an error of the file, not of the
// connection.
func (b *upBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		return 0, io.ErrClosedPipe
	}
	n, err := b.from.Read(p)
	b.moved += int64(n)
	switch {
	case errors.Is(err, io.EOF) && b.moved < b.size:
		err = fmt.Errorf("%w: it ended at %d of %d bytes", ErrChanged, b.moved, b.size)
		b.err = err
	case err != nil && !errors.Is(err, io.EOF):
		b.err = err
	}
	if b.count != nil && n > 0 {
		b.count(int64(n))
	}
	if b.moved >= b.size && !b.beside {
		b.watch.rest()
	} else {
		b.watch.moved()
	}
	return n, err
}

// end closes the attempt. takeBack says that what moved counts for nothing.
func (b *upBody) end(takeBack bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.watch.rest()
	if takeBack && b.count != nil {
		b.count(-b.moved)
	}
}

// failed returns the error of the source, nil when it had none.
func (b *upBody) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// besideBody is the body of a reply that comes while the request is still sent. What is watched is
// that either of them moves.
type besideBody struct {
	io.ReadCloser
	sent  *upBody
	watch *watch
}

func (b *besideBody) Read(p []byte) (int, error) {
	b.sent.answered()
	return b.ReadCloser.Read(p)
}

func (b *besideBody) Close() error {
	err := b.ReadCloser.Close()
	b.sent.end(false)
	b.watch.stop()
	return err
}

// answered notes that the reply moves.
func (b *upBody) answered() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.ended {
		b.watch.moved()
	}
}

// downBody is the body of a reply.
type downBody struct {
	io.ReadCloser
	watch *watch
}

func (b *downBody) Read(p []byte) (int, error) {
	b.watch.moved()
	n, err := b.ReadCloser.Read(p)
	b.watch.rest() // the caller may take its time
	return n, err
}

func (b *downBody) Close() error {
	err := b.ReadCloser.Close()
	b.watch.stop()
	return err
}
