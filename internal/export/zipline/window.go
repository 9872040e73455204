package zipline

import (
	"context"
	"sync"
)

// window is the memory of one reader: a ring whose stretches are taken and given back in the same
// order, so that nothing is allocated while an archive of any length goes through it.
//
//	 tail           head                one goroutine takes, another gives back
//	  |  in use     |
//	..[aaaa][bb][cc]............
type window struct {
	buf   []byte
	freed chan struct{} // holds a token when something was given back

	mu         sync.Mutex
	head, tail int64 // count on and on; the place in buf is the remainder
}

func newWindow(buf []byte) *window {
	return &window{buf: buf, freed: make(chan struct{}, 1)}
}

// take returns n bytes in one piece, and the mark with which they are given back. It waits until
// there is room, which never comes for more than half of the window, unless it is the first that is
// taken.
func (w *window) take(ctx context.Context, n int) (p []byte, mark int64, err error) {
	for {
		if p, mark, ok := w.tryTake(n); ok {
			return p, mark, nil
		}
		select {
		case <-w.freed:
		case <-ctx.Done():
			return nil, 0, context.Cause(ctx)
		}
	}
}

func (w *window) tryTake(n int) (p []byte, mark int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	size := int64(len(w.buf))
	at, skip := w.head%size, int64(0)
	if at+int64(n) > size { // does not fit before the end: begin at the front
		at, skip = 0, size-at
	}
	end := w.head + skip + int64(n)
	if end-w.tail > size {
		return nil, 0, false
	}
	w.head = end
	return w.buf[at : at+int64(n) : at+int64(n)], end, true
}

// give gives back everything up to mark.
func (w *window) give(mark int64) {
	w.mu.Lock()
	w.tail = mark
	w.mu.Unlock()
	select {
	case w.freed <- struct{}{}:
	default:
	}
}
