package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// stallTimer cancels an attempt if no bytes move for the timeout. Without the timer a vanished
// network, which sends no reset, would block an attempt forever.
type stallTimer struct {
	timeout time.Duration
	timer   *time.Timer
	cancel  context.CancelCauseFunc
}

// newStallTimer returns the context of an attempt and its timer, which cancels the context with
// errStalled after the time after. The timer starts with the first reset. The caller must call
// stop.
func newStallTimer(ctx context.Context, after time.Duration) (context.Context, *stallTimer) {
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, &stallTimer{timeout: after, cancel: cancel}
}

// reset restarts the timer because bytes moved. The first call starts the timer.
func (t *stallTimer) reset() {
	if t.timer == nil {
		t.timer = time.AfterFunc(t.timeout, func() { t.cancel(errStalled) })
		return
	}
	t.timer.Reset(t.timeout)
}

// pause stops the timer without cancelling the attempt. While it is paused, only the transport's
// timeouts apply.
func (t *stallTimer) pause() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

// stop stops the timer for good and cancels the attempt's context, which aborts the request if it
// still runs.
func (t *stallTimer) stop() {
	t.pause()
	t.cancel(context.Canceled)
}

// requestBody is the streamed body of one attempt. The HTTP transport may read it for a moment
// after the round trip has returned; finish makes such reads fail, so that their bytes are not
// counted.
type requestBody struct {
	size   int64
	src    io.Reader
	duplex bool          // the server may reply while the body is still being sent
	count  func(n int64) // receives the bytes sent, negative to undo; may be nil

	mu      sync.Mutex
	stall   *stallTimer
	read    int64
	readErr error
	closed  bool
}

// Read implements io.Reader. A source that ends before size bytes fails with ErrChanged, which
// counts as a local error.
func (b *requestBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, io.ErrClosedPipe
	}
	n, err := b.src.Read(p)
	b.read += int64(n)
	switch {
	case errors.Is(err, io.EOF) && b.read < b.size:
		err = fmt.Errorf("%w: it ended at %d of %d bytes", ErrChanged, b.read, b.size)
		b.readErr = err
	case err != nil && !errors.Is(err, io.EOF):
		b.readErr = err
	}
	if b.count != nil && n > 0 {
		b.count(int64(n))
	}
	if b.read >= b.size && !b.duplex {
		b.stall.pause()
	} else {
		b.stall.reset()
	}
	return n, err
}

// finish ends the attempt: later reads fail, and the stall timer pauses. With undoCount, it
// subtracts the bytes sent from the progress, because they must be sent again.
func (b *requestBody) finish(undoCount bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.stall.pause()
	if undoCount && b.count != nil {
		b.count(-b.read)
	}
}

// sourceErr returns the read error of the local source, nil if there was none.
func (b *requestBody) sourceErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.readErr
}

// duplexBody is the body of a reply that arrives while the request is still being sent. The stall
// timer runs until neither side has moved for the timeout.
type duplexBody struct {
	io.ReadCloser
	request *requestBody
	stall   *stallTimer
}

// Read reads the reply of a request whose body may still be sent. Each call resets the request's
// stall timer.
func (b *duplexBody) Read(p []byte) (int, error) {
	b.request.replyRead()
	return b.ReadCloser.Read(p)
}

// Close closes the reply and ends the request's sending side. The caller must call it.
func (b *duplexBody) Close() error {
	err := b.ReadCloser.Close()
	b.request.finish(false)
	b.stall.stop()
	return err
}

// replyRead resets the stall timer, because the reply has progressed although the request body may
// have not. After the body is closed it does nothing.
func (b *requestBody) replyRead() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.stall.reset()
	}
}

// responseBody is the body of a reply. The stall timer runs only during reads, because the caller
// may pause between them.
type responseBody struct {
	io.ReadCloser
	stall *stallTimer
}

// Read reads the reply. If nothing arrives for the stall timeout, the attempt is cancelled with
// errStalled and Read fails. Time between two reads does not count.
func (b *responseBody) Read(p []byte) (int, error) {
	b.stall.reset()
	n, err := b.ReadCloser.Read(p)
	b.stall.pause() // the caller may pause between reads
	return n, err
}

// Close closes the body and stops the stall timer. The caller must call it.
func (b *responseBody) Close() error {
	err := b.ReadCloser.Close()
	b.stall.stop()
	return err
}
