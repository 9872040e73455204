package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Write implements blob.Staging.
func (s *Staging) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	if err := ref.Admits(w); err != nil {
		return blob.Part{}, err
	}
	u, err := s.use(ref)
	if err != nil {
		return blob.Part{}, err
	}
	defer s.done(u)
	if err := u.claim(w.Gen, w.N, false); err != nil {
		return blob.Part{}, err
	}
	defer u.release(w.N)
	part, err := u.receive(ctx, w, 0, body)
	if err == nil {
		err = u.accept(part, kindPart, w.Gen)
	}
	if err != nil {
		u.discard(w.N)
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	return part, nil
}

// receive writes the bytes of a part, from its byte at on, to their place and makes them durable if
// every part is to be.
func (u *upload) receive(ctx context.Context, w blob.Write, at drive.ByteSize, body blob.Body) (blob.Part, error) {
	f, err := os.OpenFile(u.path(dataFile), os.O_WRONLY, 0) // never O_CREATE: only Create makes it
	if err != nil {
		return blob.Part{}, fmt.Errorf("open data: %w", classify(err))
	}
	part, err := u.copyPart(ctx, f, w, at, body)
	if err == nil && u.d.durability == Part {
		if err = syncData(f); err != nil {
			u.doubt(err)
		}
	}
	return part, classify(errors.Join(err, f.Close()))
}

func (u *upload) copyPart(ctx context.Context, f *os.File, w blob.Write, at drive.ByteSize, body blob.Body) (blob.Part, error) {
	c := copier{
		to: f, off: int64(w.N)*int64(u.ref.PartSize) + int64(at), limit: int64(u.ref.PartSize - at), buffers: u.d.buffers, piece: flushPiece,
	}
	if u.d.durability == Process {
		c.wrote = func(s span) { u.flush.add(ctx, s) }
	}
	if u.d.share(f, c.off, body.Sources()) {
		c.to = nowhere{}
	}
	n, err := c.copy(ctx, body)
	if err != nil {
		return blob.Part{}, err
	}
	part, err := body.Finish()
	if err != nil {
		return blob.Part{}, err
	}
	if part.N != w.N || part.Size != at+drive.ByteSize(n) || w.Size != blob.UnknownSize && w.Size != part.Size {
		return blob.Part{}, fmt.Errorf("body is part %d of %d bytes, write is of part %d, %d bytes", part.N, part.Size, w.N, w.Size)
	}
	part.Session = w.Session
	return part, nil
}

// accept enters a part or a tail whose bytes are in place. It takes no context: bytes that have
// arrived survive a client that has not waited for the answer.
func (u *upload) accept(p blob.Part, as kind, gen int64) error {
	durable := u.d.durability == Part
	back, err := u.enter(p, as, gen, durable)
	if err != nil || !durable {
		return err
	}
	if err = u.syncJournal(); err == nil {
		return nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if lerr := u.loadLocked(); lerr != nil {
		return errors.Join(err, lerr)
	}
	return errors.Join(err, u.appendLocked(back))
}

// enter accepts p, and returns the record that takes this back: the journal has the tail then that
// it had before, or nothing.
func (u *upload) enter(p blob.Part, as kind, gen int64, durable bool) (back record, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return record{}, err
	}
	back = record{kind: kindDrop, n: p.N, gen: gen}
	if tail, ok := u.journal.tails[p.N]; ok {
		tail.unsynced = true
		back = tail.record(kindTail)
	}
	u.accepts++
	e := entry{Part: p, gen: gen, at: drive.TimeOf(u.d.now()), unsynced: !durable}
	return back, u.appendLocked(e.record(as))
}

// discard frees what a failed Write has left. What it cannot free stays counted in Held, and the
// next load tries again. A part that the journal may name in spite of the failure keeps its bytes.
func (u *upload) discard(n int) {
	u.mu.Lock()
	named := u.journal == nil
	if !named {
		named = u.journal.holds(n)
	}
	gone := u.gone
	u.mu.Unlock()
	if named || gone {
		return
	}
	if err := u.free(n, 0); err != nil {
		u.d.log.Warn("torn part not freed", "upload", u.ref.ID, "part", n, "error", err)
	}
}

// free gives the bytes of a part's slot, from its byte at on, back to the file system.
func (u *upload) free(n int, at drive.ByteSize) error {
	f, err := os.OpenFile(u.path(dataFile), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("free part %d: %w", n, classify(err))
	}
	slot := span{int64(n)*int64(u.ref.PartSize) + int64(at), int64(u.ref.PartSize - at)}
	if err := errors.Join(punch(f, slot), f.Close()); err != nil {
		return fmt.Errorf("free part %d: %w", n, classify(err))
	}
	return nil
}

// nowhere takes bytes that are in their place already.
type nowhere struct{}

func (nowhere) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// patience is how long a large buffer may take to fill: 1 MiB in it is 20 MiB/s. A slower client
// writes from a small one.
const patience = 50 * time.Millisecond

// maxEmptyReads is how often a reader may return nothing and no error, as in package bufio.
const maxEmptyReads = 100

// copier writes a stream to a file. It reads into a small buffer and takes a large one only while
// the stream fills it quickly, so that slow clients, of which there may be thousands, do not hold
// the memory that makes fast ones fast.
type copier struct {
	to      io.WriterAt
	off     int64 // where the next byte goes
	limit   int64 // most bytes that may come
	buffers *buffers
	wrote   func(span) // is told of every piece that was written; may be nil
	piece   int64      // bytes

	small *[smallBuffer]byte // nil: one is taken
	once  bool               // all bytes fit into small, which has them
}

func (c *copier) copy(ctx context.Context, r io.Reader) (n int64, err error) {
	small := c.small
	if small == nil {
		small = c.buffers.takeSmall()
		defer c.buffers.giveSmall(small)
	}
	var large lease
	defer func() { c.buffers.give(large) }()
	buf, told := small[:], c.off
	for {
		m, quick, rerr := fill(ctx, r, buf, large.held())
		if n += int64(m); n > c.limit {
			return n, drive.Fail(drive.PartSize, "limit", c.limit, "sent", n)
		}
		if _, err := c.to.WriteAt(buf[:m], c.off); err != nil {
			return n, classify(err)
		}
		c.off += int64(m)
		if c.wrote != nil && c.off > told && (rerr != nil || c.off-told >= c.piece) {
			c.wrote(span{told, c.off - told})
			told = c.off
		}
		if rerr == io.EOF {
			c.once = n == int64(m)
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
		if c.small != nil && n == smallBuffer && m == smallBuffer {
			if r, c.once, err = peek(ctx, r); c.once || err != nil {
				return n, err
			}
		}
		switch {
		case !quick:
			c.buffers.give(large)
			large, buf = lease{}, small[:]
		case !large.held():
			if large = c.buffers.take(c.limit - n); large.held() {
				buf = large.buf
			}
		}
	}
}

// peek reports whether r is at its end, and returns what yields the rest of it. A reader may use
// more of a buffer than what it returns, so that it is given a byte of its own.
func peek(ctx context.Context, r io.Reader) (rest io.Reader, end bool, err error) {
	next := make([]byte, 1)
	n, _, err := fill(ctx, r, next, false)
	switch {
	case n > 0: // a Body that has ended says so again
		return io.MultiReader(bytes.NewReader(next), r), false, nil
	case err == io.EOF:
		return r, true, nil
	default:
		return r, false, err
	}
}

// fill reads until buf is full. It says whether that was quick; with hasty it gives up as soon as
// it is not.
func fill(ctx context.Context, r io.Reader, buf []byte, hasty bool) (n int, quick bool, err error) {
	start, empty := time.Now(), 0
	quick = true
	for n < len(buf) && (quick || !hasty) {
		if err := ctx.Err(); err != nil {
			return n, quick, err
		}
		m, err := r.Read(buf[n:])
		n += m
		if err != nil {
			return n, quick, err
		}
		if m > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads {
			return n, quick, io.ErrNoProgress
		}
		quick = time.Since(start) < patience
	}
	return n, quick, nil
}
