package zipline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Source is where the content of entries comes from; a blob.Store is one.
type Source interface {
	Open(ctx context.Context, name string) (blob.Object, error)
}

// Options of a reader. The zero value is the default.
type Options struct {
	// Window is how many bytes of content may be in memory, read ahead included. Default 12 MiB, at
	// least 2 MiB.
	Window drive.ByteSize
	// Parallel is how many objects are read at once. Default 64.
	Parallel int
	// Recheck: a range that ends an entry without having begun it reads the beginning, too, to
	// check the whole, where that is at most so long. Default 64 MiB; negative: however long it is.
	Recheck drive.ByteSize
	// Broken is called once when an entry cannot be delivered as the manifest says, before the
	// reader fails with the same error. It is not called when the reader's context ended.
	Broken func(*EntryError)
}

const (
	defaultWindow   = 12 * drive.MiB // leaves 4 MiB of the 16 that a stream may cost for stacks, headers and connections
	minWindow       = 2 * pieceSize  // so that the largest piece always fits; see window
	defaultParallel = 64             // 1,000 objects of 100 KB in a second, each behind two requests of 20 ms, keep 40 busy
	defaultRecheck  = 64 * drive.MiB // bounds what the store must read for a range of one byte
)

func (o Options) withDefaults() Options {
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.Recheck == 0 {
		o.Recheck = defaultRecheck
	}
	o.Window = max(o.Window, minWindow)
	o.Parallel = max(o.Parallel, 1)
	return o
}

// EntryError says which entry could not be delivered. Err is NotFound for a missing object,
// DigestMismatch for one that is damaged or not the one that was sealed, and what the store said
// otherwise.
type EntryError struct {
	Index int // in the manifest
	Name  string
	Err   error
}

func (e *EntryError) Error() string { return fmt.Sprintf("entry %d (%s): %v", e.Index, e.Name, e.Err) }

func (e *EntryError) Unwrap() error { return e.Err }

// Damaged reports whether the content is gone or wrong for good, as opposed to a store that does
// not answer.
func (e *EntryError) Damaged() bool { return drive.IsKind(e.Err, drive.NotFound, drive.DigestMismatch) }

// Open returns the bytes [from, to) of the archive. The reader ends with ctx, and must be closed;
// it is for one goroutine. It begins to read ahead at once.
func (a *Archive) Open(ctx context.Context, src Source, from, to drive.ByteSize, o Options) io.ReadCloser {
	from = max(0, min(from, a.Size()))
	to = max(from, min(to, a.Size()))
	r := &reader{a: a, o: o.withDefaults(), at: int64(from), to: int64(to), next: a.find(int64(from))}
	ctx, r.cancel = context.WithCancel(ctx)
	r.done, r.cause = ctx.Done(), func() error { return context.Cause(ctx) }
	r.window = takeWindow(a.demand(int64(from), int64(to), &r.o))
	r.queue = make(chan *piece, queueLength)
	r.dispatcher.Go(func() { a.dispatch(ctx, src, int64(from), int64(to), r) })
	return r
}

// queueLength is how many pieces may be in the window at most: it matters for entries of a few
// bytes.
const queueLength = 256

// windows keeps the memory of readers of the default size.
var windows = sync.Pool{New: func() any { b := make([]byte, defaultWindow); return &b }}

func takeWindow(size int64) *window {
	if size != int64(defaultWindow) {
		return newWindow(make([]byte, size))
	}
	return newWindow(*windows.Get().(*[]byte))
}

// demand is how many bytes of content [from, to) takes from the store, or the whole window where
// that is less.
func (a *Archive) demand(from, to int64, o *Options) (total int64) {
	for i := a.find(from) / 2; i < len(a.entries) && a.starts[i] < to && total < int64(o.Window); i++ {
		lo, hi := a.content(i)
		if s := (segment{from: lo, to: hi, entry: i}); a.stored(s) && max(from, lo) < min(to, hi) {
			p := o.plan(i, hi-lo, max(from, lo)-lo, min(to, hi)-lo)
			total += p.end - p.begin
		}
	}
	return min(total, int64(o.Window))
}

// reader puts glue and pieces together. Only dispatch and the fetches work beside it.
type reader struct {
	a      *Archive
	o      Options
	cancel context.CancelFunc
	done   <-chan struct{}
	cause  func() error // why done

	window     *window
	queue      chan *piece // in their order in the archive
	fetches    sync.WaitGroup
	dispatcher sync.WaitGroup

	at, to int64
	next   int    // segment that follows what is in rest
	left   int64  // bytes of the present entry that are yet to come from the queue
	coming *piece // out of the queue, and not ready when it was last looked at
	rest   []byte // known bytes from at on
	mark   int64  // gives back the memory of rest; 0: it is not in the window
	err    error
}

// Read implements io.Reader. It returns less than it was asked for rather than wait with bytes in
// hand.
func (r *reader) Read(p []byte) (n int, err error) {
	for n < len(p) && r.err == nil {
		if len(r.rest) == 0 {
			if r.err = r.advance(n == 0); r.err == errWait {
				r.err = nil
				return n, nil
			}
			continue
		}
		m := copy(p[n:], r.rest)
		r.rest, n, r.at = r.rest[m:], n+m, r.at+int64(m)
	}
	if n > 0 {
		return n, nil
	}
	return 0, r.err
}

// errWait: the next bytes are not here yet.
var errWait = errors.New("not yet")

// advance gets the next bytes into rest, which is empty, or at least comes nearer to them.
func (r *reader) advance(wait bool) error {
	if r.mark > 0 {
		r.window.give(r.mark)
		r.mark = 0
	}
	switch {
	case r.at == r.to:
		return io.EOF
	case r.left > 0:
		return r.receive(wait)
	}
	s := r.a.segment(r.next)
	r.next++
	lo, hi := max(r.at, s.from)-s.from, min(r.to, s.to)-s.from
	switch {
	case r.a.stored(s):
		r.left = hi - lo
	case s.entry >= 0:
		r.rest = r.a.entries[s.entry].Inline[lo:hi]
	default:
		r.rest = s.glue[lo:hi]
	}
	return nil
}

// receive takes the next piece. One that is only there to be checked has nothing to send.
func (r *reader) receive(wait bool) (err error) {
	if r.coming == nil {
		if r.coming, err = r.await(wait); err != nil {
			return err
		}
	}
	p := r.coming
	if err := r.full(p, wait); err != nil {
		return err
	}
	if p.err != nil {
		return r.broken(p.err)
	}
	r.coming, r.mark, r.rest = nil, p.mark, p.send
	r.left -= int64(len(p.send))
	return nil
}

// await returns the next piece in the queue.
func (r *reader) await(wait bool) (*piece, error) {
	select {
	case p, ok := <-r.queue:
		if !ok {
			return nil, r.cause()
		}
		return p, nil
	default:
	}
	if !wait {
		return nil, errWait
	}
	select {
	case p, ok := <-r.queue:
		if ok {
			return p, nil
		}
	case <-r.done:
	}
	return nil, r.cause()
}

// full returns when the bytes of a piece are there.
func (r *reader) full(p *piece, wait bool) error {
	select {
	case <-p.ready:
		return nil
	default:
	}
	if !wait {
		return errWait
	}
	select {
	case <-p.ready:
		return nil
	case <-r.done:
		return r.cause()
	}
}

// broken reports an entry that cannot be delivered, unless that is only because the reader was told
// to end.
func (r *reader) broken(err error) error {
	if cause := r.cause(); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*EntryError](err); ok && r.o.Broken != nil {
		r.o.Broken(e)
	}
	return err
}

// Close ends all reading and waits for it.
func (r *reader) Close() error {
	r.cancel()
	r.dispatcher.Wait()
	if r.err == nil {
		r.err = errClosed
	}
	if r.window != nil && len(r.window.buf) == int(defaultWindow) {
		windows.Put(&r.window.buf)
	}
	r.window, r.rest, r.coming = nil, nil, nil
	return nil
}

var errClosed = errors.New("archive: reader is closed")
