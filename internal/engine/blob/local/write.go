package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Write writes the body as part w.N to its place in the data file and then journals it, which
// accepts the part (blob.Staging). It fails with blob.PartExistsError if the part was accepted
// before. After any other error the part is not accepted, and its bytes are freed.
func (s *Staging) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	if err := ref.CheckWrite(w); err != nil {
		return blob.Part{}, err
	}
	u, err := s.acquire(ref)
	if err != nil {
		return blob.Part{}, err
	}
	defer s.release(u)
	if err := u.claim(w.Gen, w.N, false); err != nil {
		return blob.Part{}, err
	}
	defer u.release(w.N)
	part, err := u.writeBody(ctx, w, 0, body)
	if err == nil {
		err = u.accept(part, kindPart, w.Gen)
	}
	if err != nil {
		u.freeFailed(w.N)
		return blob.Part{}, fmt.Errorf("write part %d: %w", w.N, err)
	}
	return part, nil
}

// writeBody writes the bytes of a part from offset at on to their place, and syncs them if
// Durability is DurabilityPart.
func (u *upload) writeBody(ctx context.Context, w blob.Write, at drive.ByteSize, body blob.Body) (blob.Part, error) {
	f, err := os.OpenFile(u.path(dataFile), os.O_WRONLY, 0) // never O_CREATE: only Create makes the file
	if err != nil {
		return blob.Part{}, fmt.Errorf("open data: %w", classify(err))
	}
	part, err := u.copyPart(ctx, f, w, at, body)
	if err == nil && u.d.durability == DurabilityPart {
		if err = syncData(f); err != nil {
			u.suspectAll(err)
		}
	}
	return part, classify(errors.Join(err, f.Close()))
}

// copyPart copies body to its place in f, or shares it, and returns its Finish result. It fails if
// body is not the part of w.
func (u *upload) copyPart(ctx context.Context, f *os.File, w blob.Write, at drive.ByteSize, body blob.Body) (blob.Part, error) {
	c := copier{
		to: f, off: int64(w.N)*int64(u.ref.PartSize) + int64(at), limit: int64(u.ref.PartSize - at), buffers: u.d.buffers, piece: flushPiece,
	}
	if u.d.durability == DurabilityProcess {
		c.onWrite = func(s span) { u.flush.add(ctx, s) }
	}
	if u.d.share(f, c.off, body.Sources()) {
		c.to = discardWriter{}
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

// accept journals a part or tail, as kind as, whose bytes are in place. With DurabilityPart it also
// syncs the journal; if that fails, it journals the previous state of the part again. It takes no
// context, because bytes that have arrived are accepted even if the client is gone.
func (u *upload) accept(p blob.Part, as kind, gen int64) error {
	durable := u.d.durability == DurabilityPart
	back, err := u.appendPart(p, as, gen, durable)
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

// appendPart adds p to the journal as an accepted part or tail, without a sync, and returns the
// record whose journaling undoes this: the previous tail, or a drop.
func (u *upload) appendPart(p blob.Part, as kind, gen int64, durable bool) (back record, err error) {
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
	u.accepted++
	e := entry{Part: p, gen: gen, at: drive.TimeOf(u.d.now()), unsynced: !durable}
	return back, u.appendLocked(e.record(as))
}

// freeFailed frees the bytes of a failed Write, unless the journal may contain the part despite the
// failure. Bytes that cannot be freed stay counted as held until the next load.
func (u *upload) freeFailed(n int) {
	u.mu.Lock()
	named := u.journal == nil
	if !named {
		named = u.journal.holds(n)
	}
	gone := u.removed
	u.mu.Unlock()
	if named || gone {
		return
	}
	if err := u.free(n, 0); err != nil {
		u.d.log.Warn("bytes of a failed part not freed; they are freed when the upload is loaded again", "upload", u.ref.ID, "part", n, "error", err)
	}
}

// free returns the blocks of part n from offset at in the part to its end to the file system. These
// bytes then read as zeros. The caller must have claimed the part.
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

// discardWriter is an io.WriterAt that discards everything, for bytes that are in place already and
// only need to be hashed.
type discardWriter struct{}

// WriteAt discards p and returns its length.
func (discardWriter) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// fastFill is the longest time to fill a large buffer for a stream to count as fast: 1 MiB in 50 ms
// is 20 MiB/s. Slower clients use a small buffer.
const fastFill = 50 * time.Millisecond

// maxEmptyReads bounds consecutive reads without bytes or error, as in package bufio.
const maxEmptyReads = 100

// copier writes a stream to a file. It reads into a small buffer and uses a large one only while
// the stream fills it quickly, so that thousands of slow clients do not hold the memory that makes
// fast ones fast.
type copier struct {
	to      io.WriterAt
	off     int64 // where the next byte is written
	limit   int64 // maximum number of bytes
	buffers *buffers
	onWrite func(span) // called for every written range of piece bytes and the last one; may be nil
	piece   int64      // in bytes

	small     *[smallBuffer]byte // nil: borrow one
	fitsSmall bool               // set if all bytes fit into small, which then has them
}

// copy copies r to its end, from c.off on, and returns the number of bytes that it read. It fails
// with PartSize if r is longer than c.limit, and then, as after any error, part of the bytes is
// written. It sets c.fitsSmall to whether the small buffer holds all bytes.
func (c *copier) copy(ctx context.Context, r io.Reader) (n int64, err error) {
	small := c.small
	if small == nil {
		small = c.buffers.getSmall()
		defer c.buffers.putSmall(small)
	}
	var large loan
	defer func() { c.buffers.giveBack(large) }()
	buf, reported := small[:], c.off
	for {
		m, fast, rerr := fill(ctx, r, buf, large.held())
		if n += int64(m); n > c.limit {
			return n, drive.Fail(drive.PartSize, "limit", c.limit, "sent", n)
		}
		if _, err := c.to.WriteAt(buf[:m], c.off); err != nil {
			return n, classify(err)
		}
		c.off += int64(m)
		if c.onWrite != nil && c.off > reported && (rerr != nil || c.off-reported >= c.piece) {
			c.onWrite(span{reported, c.off - reported})
			reported = c.off
		}
		if rerr == io.EOF {
			c.fitsSmall = n == int64(m)
			return n, nil
		}
		if rerr != nil {
			return n, rerr
		}
		if c.small != nil && n == smallBuffer && m == smallBuffer {
			if r, c.fitsSmall, err = peek(ctx, r); c.fitsSmall || err != nil {
				return n, err
			}
		}
		switch {
		case !fast:
			c.buffers.giveBack(large)
			large, buf = loan{}, small[:]
		case !large.held():
			if large = c.buffers.borrow(c.limit - n); large.held() {
				buf = large.buf
			}
		}
	}
}

// peek reports whether r is at its end, and returns a reader of the rest. It reads into its own
// byte, because a reader may use more of a buffer than it returns.
func peek(ctx context.Context, r io.Reader) (rest io.Reader, end bool, err error) {
	next := make([]byte, 1)
	n, _, err := fill(ctx, r, next, false)
	switch {
	case n > 0: // a Body that has ended returns its error again
		return io.MultiReader(bytes.NewReader(next), r), false, nil
	case err == io.EOF:
		return r, true, nil
	default:
		return r, false, err
	}
}

// fill reads until buf is full. fast reports whether that took at most fastFill. With stopIfSlow,
// fill returns early once the stream is slow.
func fill(ctx context.Context, r io.Reader, buf []byte, stopIfSlow bool) (n int, fast bool, err error) {
	start, empty := time.Now(), 0
	fast = true
	for n < len(buf) && (fast || !stopIfSlow) {
		if err := ctx.Err(); err != nil {
			return n, fast, err
		}
		m, err := r.Read(buf[n:])
		n += m
		if err != nil {
			return n, fast, err
		}
		if m > 0 {
			empty = 0
		} else if empty++; empty == maxEmptyReads {
			return n, fast, io.ErrNoProgress
		}
		fast = time.Since(start) < fastFill
	}
	return n, fast, nil
}
