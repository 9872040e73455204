package zipline

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// pieceSize is the largest piece of an entry that is read at once, in bytes. An entry up to this
// size is verified before any byte is sent; of a longer entry, the last piece is held back until
// the entry is verified.
const pieceSize = 1 << 20

// piece is a part of an entry's content in the window. A fetch fills it, then the reader delivers
// it and frees its memory.
type piece struct {
	buf   []byte
	send  []byte        // the part of buf to deliver; may be empty
	mark  int64         // argument of window.release that frees buf
	ready chan struct{} // closed when buf is filled and verified as far as possible, or err is set
	err   error
}

// plan is the read plan of one entry. Offsets count from the start of the entry.
type plan struct {
	entry    int
	from, to int64 // range to deliver
	begin    int64 // start of the range to read
	end      int64 // end of the range to read
	check    bool  // the whole entry is read and its CRC-32 verified
}

// planEntry returns the read plan for the range [from, to) of an entry of the given size.
func (o *Options) planEntry(entry int, size, from, to int64) plan {
	p := plan{entry: entry, from: from, to: to, begin: from, end: to}
	switch {
	case size <= pieceSize:
		p.begin, p.end = 0, size
	case to == size && (o.VerifyLimit < 0 || from <= int64(o.VerifyLimit)):
		p.begin = 0
	}
	p.check = p.begin == 0 && p.end == size
	return p
}

// piece returns a piece for buf, which starts at offset at of the entry.
func (p *plan) piece(buf []byte, at, mark int64) *piece {
	lo, hi := max(p.from, at), min(p.to, at+int64(len(buf)))
	send := buf[:0]
	if lo < hi {
		send = buf[lo-at : hi-at]
	}
	return &piece{buf: buf, send: send, mark: mark, ready: make(chan struct{})}
}

// dispatch reads ahead of the reader from offset from to offset to. For each piece in order it
// acquires memory from the window, starts one fetch per entry, and queues the piece. It returns
// when ctx ends or nothing is left, after all fetches have ended.
func (a *Archive) dispatch(ctx context.Context, src Source, from, to int64, r *reader) {
	defer close(r.queue)
	defer r.fetches.Wait()
	slots := make(chan struct{}, r.o.Parallel)
	for k := a.segmentAt(from); k < a.segments(); k++ {
		s := a.segment(k)
		if s.from >= to {
			return
		}
		if !a.stored(s) {
			continue
		}
		p := r.o.planEntry(s.entry, s.to-s.from, max(from, s.from)-s.from, min(to, s.to)-s.from)
		if a.feed(ctx, src, p, slots, r) != nil {
			return
		}
	}
}

// stored reports whether s is a part of an entry's content that is read from the store. It returns
// false for headers, inline content and empty segments.
func (a *Archive) stored(s segment) bool {
	return s.entry >= 0 && s.from < s.to && a.entries[s.entry].Blob != ""
}

// feed waits for a free slot, starts a goroutine that fetches one entry, and queues its pieces for
// the reader in order. It returns the error of ctx if ctx ends; errors of the entry are in its
// pieces.
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
		buf, mark, err := r.window.acquire(ctx, int(min(pieceSize, p.end-at)))
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

// fetch fills the pieces of one entry in the order of work and closes ready of each. After an
// error, each further piece gets that error as an EntryError. It returns when work is closed.
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

// fetcher reads one entry from the store.
type fetcher struct {
	plan
	entry  *Entry
	obj    blob.Object
	stop   func() bool   // result of context.AfterFunc: stops the hook that closes obj when ctx ends
	closed chan struct{} // closed when that hook has closed obj
	at     int64
	crc    uint32
}

// open opens the object. When ctx ends, the object is closed, so that a blocked read returns. An
// object of another size is DigestMismatch.
func (f *fetcher) open(ctx context.Context, src Source) error {
	obj, err := src.Open(ctx, f.entry.Blob)
	if err != nil {
		return fmt.Errorf("open content: %w", err)
	}
	f.obj, f.closed = obj, make(chan struct{})
	f.stop = context.AfterFunc(ctx, func() {
		defer close(f.closed)
		obj.Close()
	})
	if obj.Size() != f.entry.Size {
		return drive.Wrap(fmt.Errorf("%d bytes, sealed were %d", obj.Size(), f.entry.Size), drive.DigestMismatch)
	}
	return nil
}

// close closes the object, or waits until the end of ctx has closed it.
func (f *fetcher) close() {
	switch {
	case f.obj == nil:
	case f.stop():
		f.obj.Close()
	default:
		<-f.closed
	}
}

// fill reads the next piece. With the last piece of a whole entry it verifies the CRC-32; a short
// or wrong content is DigestMismatch.
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
