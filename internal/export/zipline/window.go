package zipline

import (
	"context"
	"sync"
)

// window is the memory of one reader: a ring buffer whose ranges are acquired and released in the
// same order, so that reading an archive of any length allocates nothing more. It begins with the
// memory of one piece and grows to its size when as much has been released, so that a client that
// does not read occupies little.
//
//	tail           head                one goroutine acquires, another releases
//	  |  in use     |
//	..[aaaa][bb][cc]............
type window struct {
	size  int64         // of buf, once it has grown
	freed chan struct{} // has a token after a release

	mu         sync.Mutex
	buf        []byte
	head, tail int64 // grow monotonically; the index in buf is the remainder modulo len(buf)
}

// newWindow returns an empty window of size bytes.
func newWindow(size int64) *window {
	return &window{size: size, buf: make([]byte, min(size, pieceSize)), freed: make(chan struct{}, 1)}
}

// acquire acquires n contiguous bytes and the mark to release them. It waits for free space or for
// the end of ctx. n must not exceed half of the window, unless it is the first acquisition.
func (w *window) acquire(ctx context.Context, n int) (p []byte, mark int64, err error) {
	for {
		if p, mark, ok := w.tryAcquire(n); ok {
			return p, mark, nil
		}
		select {
		case <-w.freed:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

// tryAcquire reserves the next n bytes of the window, contiguous in p, without waiting. mark is the
// position after them, for their release. ok is false if the bytes are in use; nothing is reserved
// then.
func (w *window) tryAcquire(n int) (p []byte, mark int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := int64(len(w.buf))
	if size < w.size && w.tail >= size {
		w.buf, size = getBuffer(w.size), w.size // ranges in use keep the first buffer
	}
	at, skip := w.head%size, int64(0)
	if at+int64(n) > size { // does not fit before the end: begin at the front
		at, skip = 0, size-at
	}
	if w.head == w.tail { // nothing is in use: the skipped bytes are free
		w.tail += skip
	}
	end := w.head + skip + int64(n)
	if end-w.tail > size {
		return nil, 0, false
	}
	w.head = end
	return w.buf[at : at+int64(n) : at+int64(n)], end, true
}

// release releases everything up to mark.
func (w *window) release(mark int64) {
	w.mu.Lock()
	w.tail = mark
	w.mu.Unlock()
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// close returns the buffer to its pool. The window must not be used afterwards.
func (w *window) close() {
	if len(w.buf) == int(defaultWindow) {
		bufferPool.Put(&w.buf)
	}
}

// bufferPool pools the buffers of grown windows of the default size.
var bufferPool = sync.Pool{New: func() any { b := make([]byte, defaultWindow); return &b }}

// getBuffer returns a buffer of size bytes, from the pool if it has the default size.
func getBuffer(size int64) []byte {
	if size != int64(defaultWindow) {
		return make([]byte, size)
	}
	return *bufferPool.Get().(*[]byte)
}
