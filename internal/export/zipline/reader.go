package zipline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Source opens the contents of entries by blob name; a blob.Store is one. The caller closes the
// object.
type Source interface {
	// Open opens the content of an entry by its Blob name. The reader closes the Object. An error
	// ends the zip as an EntryError.
	Open(ctx context.Context, name string) (blob.Object, error)
}

// Options configures a reader. A zero field selects its default.
type Options struct {
	// Window is the maximum number of content bytes in memory, including read-ahead. Default 12
	// MiB, at least 2 MiB.
	Window drive.ByteSize
	// Parallel is the number of objects read concurrently. Default 64.
	Parallel int
	// VerifyLimit limits the bytes read only for verification: a range that ends an entry but
	// starts inside it at most VerifyLimit bytes from its start is read from the start. Default 64
	// MiB; negative: no limit.
	VerifyLimit drive.ByteSize
	// OnBroken is called once when an entry cannot be delivered as in the manifest, before the
	// reader fails with the same error. It is not called if the reader's context has ended.
	OnBroken func(*EntryError)
}

const (
	defaultWindow   = 12 * drive.MiB // leaves 4 MiB of the 16 MiB per stream for stacks, headers and connections
	minWindow       = 2 * pieceSize  // the largest piece always fits; see window
	defaultParallel = 64             // 1,000 objects of 100 KB per second, each after two requests of 20 ms, keep 40 busy
	defaultRecheck  = 64 * drive.MiB // limits the bytes read from the store for a range of one byte
)

// withDefaults returns o with defaults for zero fields and at least the minimum values.
func (o Options) withDefaults() Options {
	if o.Window == 0 {
		o.Window = defaultWindow
	}
	if o.Parallel == 0 {
		o.Parallel = defaultParallel
	}
	if o.VerifyLimit == 0 {
		o.VerifyLimit = defaultRecheck
	}
	o.Window = max(o.Window, minWindow)
	o.Parallel = max(o.Parallel, 1)
	return o
}

// EntryError reports an entry that could not be delivered. Err is NotFound for a missing object,
// DigestMismatch for a damaged or different one, and otherwise the error of the store.
type EntryError struct {
	Index int // index in the manifest
	Name  string
	Err   error
}

// Error returns the number and name of the entry and the cause.
func (e *EntryError) Error() string { return fmt.Sprintf("entry %d (%s): %v", e.Index, e.Name, e.Err) }

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// Damaged reports whether the content is permanently missing or wrong, in contrast to an
// unavailable store.
func (e *EntryError) Damaged() bool { return drive.IsKind(e.Err, drive.NotFound, drive.DigestMismatch) }

// Open returns a reader for the bytes [from, to) of the archive, which starts to read ahead at
// once. It fails when ctx ends. The caller closes it. It is not safe for concurrent use.
func (a *Archive) Open(ctx context.Context, src Source, from, to drive.ByteSize, o Options) io.ReadCloser {
	from = max(0, min(from, a.Size()))
	to = max(from, min(to, a.Size()))
	r := &reader{a: a, o: o.withDefaults(), at: int64(from), to: int64(to), next: a.segmentAt(int64(from))}
	ctx, r.cancel = context.WithCancel(ctx)
	r.done, r.cause = ctx.Done(), func() error { return context.Cause(ctx) }
	r.window = newWindow(a.demand(int64(from), int64(to), &r.o))
	r.queue = make(chan *piece, queueLength)
	r.dispatcher.Go(func() { a.dispatch(ctx, src, int64(from), int64(to), r) })
	return r
}

// queueLength is the maximum number of pieces in the window, which matters for entries of a few
// bytes.
const queueLength = 256

// demand returns the number of content bytes that the range [from, to) reads from the store, at
// most o.Window.
func (a *Archive) demand(from, to int64, o *Options) (total int64) {
	for i := a.segmentAt(from) / 2; i < len(a.entries) && a.starts[i] < to && total < int64(o.Window); i++ {
		lo, hi := a.contentRange(i)
		if s := (segment{from: lo, to: hi, entry: i}); a.stored(s) && max(from, lo) < min(to, hi) {
			p := o.planEntry(i, hi-lo, max(from, lo)-lo, min(to, hi)-lo)
			total += p.end - p.begin
		}
	}
	return min(total, int64(o.Window))
}

// reader joins glue and pieces to the bytes of an archive. Only dispatch and the fetches run
// concurrently with it.
type reader struct {
	a      *Archive
	o      Options
	cancel context.CancelFunc
	done   <-chan struct{}
	cause  func() error // cause of the context

	window     *window
	queue      chan *piece // in order of the archive
	fetches    sync.WaitGroup
	dispatcher sync.WaitGroup

	at, to    int64  // offsets of the next byte to return, and of the end
	next      int    // index of the segment after rest
	remaining int64  // bytes of the current entry still to be received
	pending   *piece // received from queue but not ready at the last check
	rest      []byte // available bytes from offset at
	mark      int64  // frees the memory of rest; 0: rest is not in the window
	err       error  // permanent; io.EOF at the end
}

// Read returns the next bytes of the zip. If it has bytes to return, it returns them instead of
// waiting for more. It returns io.EOF at the end; an error is permanent.
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

// errWait reports that the next bytes are not available yet.
var errWait = errors.New("not yet")

// advance fills the empty rest with the next bytes, or makes progress towards them. Without wait it
// returns errWait instead of blocking.
func (r *reader) advance(wait bool) error {
	if r.mark > 0 {
		r.window.release(r.mark)
		r.mark = 0
	}
	switch {
	case r.at == r.to:
		return io.EOF
	case r.remaining > 0:
		return r.receive(wait)
	}
	s := r.a.segment(r.next)
	r.next++
	lo, hi := max(r.at, s.from)-s.from, min(r.to, s.to)-s.from
	switch {
	case r.a.stored(s):
		r.remaining = hi - lo
	case s.entry >= 0:
		r.rest = r.a.entries[s.entry].Inline[lo:hi]
	default:
		r.rest = s.glue[lo:hi]
	}
	return nil
}

// receive moves the next piece into rest. A piece that is only verified has nothing to send.
func (r *reader) receive(wait bool) (err error) {
	if r.pending == nil {
		if r.pending, err = r.nextPiece(wait); err != nil {
			return err
		}
	}
	p := r.pending
	if err := r.waitReady(p, wait); err != nil {
		return err
	}
	if p.err != nil {
		return r.reportBroken(p.err)
	}
	r.pending, r.mark, r.rest = nil, p.mark, p.send
	r.remaining -= int64(len(p.send))
	return nil
}

// nextPiece removes the next piece from the queue. If there is none it waits, or returns errWait if
// wait is false. It returns the cause if the reader has failed or ended.
func (r *reader) nextPiece(wait bool) (*piece, error) {
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

// waitReady returns nil once the piece has been read. If it has not, waitReady waits, or returns
// errWait if wait is false. It returns the cause if the reader is cancelled meanwhile.
func (r *reader) waitReady(p *piece, wait bool) error {
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

// reportBroken reports err to Options.OnBroken and returns it. If the context has ended, it returns
// the cause of the context instead.
func (r *reader) reportBroken(err error) error {
	if cause := r.cause(); cause != nil {
		return cause
	}
	if e, ok := errors.AsType[*EntryError](err); ok && r.o.OnBroken != nil {
		r.o.OnBroken(e)
	}
	return err
}

// Close cancels the running reads, waits for them and frees the window. Later calls of Read fail.
// It always returns nil; it must not run concurrently with Read.
func (r *reader) Close() error {
	r.cancel()
	r.dispatcher.Wait()
	if r.err == nil {
		r.err = errClosed
	}
	if r.window != nil {
		r.window.close()
	}
	r.window, r.rest, r.pending = nil, nil, nil
	return nil
}

// errClosed is returned by Read after Close.
var errClosed = errors.New("archive: reader is closed")
