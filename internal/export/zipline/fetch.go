package zipline

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// pieceSize is the longest stretch of an entry that is read at once, in bytes. An entry up to here
// is checked as a whole before any byte of it goes out; of a longer one the last piece waits for
// the check.
const pieceSize = 1 << 20

// piece is a stretch of an entry on its way through the window.
type piece struct {
	buf   []byte
	send  []byte        // the part of buf that the reader wants
	mark  int64         // gives buf back
	ready chan struct{} // closed when buf is full, and checked as far as it can be, or err is set
	err   error
}

// plan says what is to be read of an entry, in offsets into it.
type plan struct {
	entry    int
	from, to int64 // what is delivered
	begin    int64 // where reading begins
	end      int64 // where it ends
	check    bool  // all of the entry is read
}

// plan decides what to read of an entry of which [from, to) is wanted.
func (o *Options) plan(entry int, size, from, to int64) plan {
	p := plan{entry: entry, from: from, to: to, begin: from, end: to}
	switch {
	case size <= pieceSize:
		p.begin, p.end = 0, size
	case to == size && (o.Recheck < 0 || from <= int64(o.Recheck)):
		p.begin = 0
	}
	p.check = p.begin == 0 && p.end == size
	return p
}

// piece cuts out of buf, which begins at offset at of the entry, what is wanted.
func (p *plan) piece(buf []byte, at, mark int64) *piece {
	lo, hi := max(p.from, at), min(p.to, at+int64(len(buf)))
	send := buf[:0]
	if lo < hi {
		send = buf[lo-at : hi-at]
	}
	return &piece{buf: buf, send: send, mark: mark, ready: make(chan struct{})}
}

// dispatch walks over the archive from one offset to another, ahead of whoever reads it: it takes
// room in the window for piece after piece, in their order, starts a fetch for each entry, and
// hands the pieces on. It ends with ctx or when there is nothing left, and waits for the fetches.
func (a *Archive) dispatch(ctx context.Context, src Source, from, to int64, r *reader) {
	defer close(r.queue)
	defer r.fetches.Wait()
	slots := make(chan struct{}, r.o.Parallel)
	for k := a.find(from); k < a.segments(); k++ {
		s := a.segment(k)
		if s.from >= to {
			return
		}
		if !a.stored(s) {
			continue
		}
		p := r.o.plan(s.entry, s.to-s.from, max(from, s.from)-s.from, min(to, s.to)-s.from)
		if a.feed(ctx, src, p, slots, r) != nil {
			return
		}
	}
}

// stored reports whether the segment's bytes come from the store.
func (a *Archive) stored(s segment) bool {
	return s.entry >= 0 && s.from < s.to && a.entries[s.entry].Blob != ""
}

// feed starts the fetch of one entry, and gives it its pieces.
func (a *Archive) feed(ctx context.Context, src Source, p plan, slots chan struct{}, r *reader) error {
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	work := make(chan *piece, 1)
	defer close(work)
	r.fetches.Go(func() {
		defer func() { <-slots }()
		a.fetch(ctx, src, p, work)
	})
	for at := p.begin; at < p.end; at += pieceSize {
		buf, mark, err := r.window.take(ctx, int(min(pieceSize, p.end-at)))
		if err != nil {
			return err
		}
		next := p.piece(buf, at, mark)
		for _, to := range []chan *piece{work, r.queue} {
			select {
			case to <- next:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// fetch fills the pieces of one entry one after the other. After an error all that come get it.
func (a *Archive) fetch(ctx context.Context, src Source, p plan, work <-chan *piece) {
	e := &a.entries[p.entry]
	f := fetcher{plan: p, entry: e, at: p.begin}
	defer f.close()
	err := f.open(ctx, src)
	for next := range work {
		if err == nil {
			err = f.fill(next.buf)
		}
		if err != nil {
			next.err = &EntryError{Index: p.entry, Name: e.Name, Err: err}
		}
		close(next.ready)
	}
}

// fetcher reads one entry.
type fetcher struct {
	plan
	entry *Entry
	obj   blob.Object
	stop  func() bool   // keeps the end of the context from closing obj, unless it has begun to
	shut  chan struct{} // closed when the end of the context has closed obj
	at    int64
	crc   uint32
}

// open opens the object. The end of ctx closes it, which is what makes a read that hangs return.
func (f *fetcher) open(ctx context.Context, src Source) error {
	obj, err := src.Open(ctx, f.entry.Blob)
	if err != nil {
		return fmt.Errorf("open content: %w", err)
	}
	f.obj, f.shut = obj, make(chan struct{})
	f.stop = context.AfterFunc(ctx, func() {
		defer close(f.shut)
		obj.Close()
	})
	if obj.Size() != f.entry.Size {
		return drive.Wrap(fmt.Errorf("%d bytes, sealed were %d", obj.Size(), f.entry.Size), drive.DigestMismatch)
	}
	return nil
}

func (f *fetcher) close() {
	switch {
	case f.obj == nil:
	case f.stop():
		f.obj.Close()
	default:
		<-f.shut
	}
}

// fill reads the next piece, and with the last one of a whole entry checks it.
func (f *fetcher) fill(buf []byte) error {
	n, err := f.obj.ReadAt(buf, f.at)
	if n < len(buf) {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return drive.Wrap(fmt.Errorf("content ends at %d: %w", f.at+int64(n), io.ErrUnexpectedEOF), drive.DigestMismatch)
		}
		return fmt.Errorf("read content at %d: %w", f.at, err)
	}
	f.at += int64(n)
	if !f.check {
		return nil
	}
	f.crc = crc32.Update(f.crc, crc32.IEEETable, buf)
	if f.at == f.end && f.crc != f.entry.CRC32 {
		return drive.Wrap(fmt.Errorf("CRC-32 %08x, sealed was %08x", f.crc, f.entry.CRC32), drive.DigestMismatch)
	}
	return nil
}
