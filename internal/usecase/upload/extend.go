package upload

import (
	"context"
	"errors"
	"fmt"
	"io"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// piece is what of a body belongs to one part. Whatever ends the body early looks like its end, and
// is remembered: what came is kept.
type piece struct {
	in      io.Reader
	left    drive.ByteSize
	stopped func() error
	begun   bool  // something was read
	cause   error // what ended it early
}

func (p *piece) Read(b []byte) (int, error) {
	if p.left == 0 || p.cause != nil {
		return 0, io.EOF
	}
	if p.cause = p.stopped(); p.cause != nil {
		return 0, io.EOF
	}
	n, err := p.in.Read(b[:min(int64(len(b)), int64(p.left))])
	p.begun = true
	p.left -= drive.ByteSize(n)
	if err != nil && !errors.Is(err, io.EOF) {
		p.cause, err = err, io.EOF
	}
	return n, err
}

// endOf returns where the bytes of a part or tail end in the file.
func endOf(p blob.Part, partSize drive.ByteSize) drive.ByteSize {
	return drive.ByteSize(p.N)*partSize + p.Size
}

// extend adds p to the part that f.offset is in, whose whole length is whole; 0: the row says.
func (f *filling) extend(ctx context.Context, p *piece, whole drive.ByteSize) (blob.Part, outcome, error) {
	part, out, err := f.write(ctx, p, whole)
	if drive.IsKind(err, drive.OffsetMismatch) { // now that it writes no part any more it may wait for the turn
		var at drive.ByteSize
		if at, err = f.s.elsewhere(ctx, f.who, f.l, p, f.offset); f.a.Verify == nil {
			f.offset = at
		}
	}
	return part, out, err
}

// write is extend. OffsetMismatch: f.offset is not where the upload ends.
func (f *filling) write(ctx context.Context, p *piece, whole drive.ByteSize) (blob.Part, outcome, error) {
	s, l := f.s, f.l
	e := blob.Extend{N: int(f.offset / f.partSize), At: f.offset % f.partSize, Whole: whole}
	w := &partWriter{cancel: f.stop, done: make(chan struct{})}
	row, out, err := s.receiver.admit(ctx, f.who, l, PutPart{N: e.N, open: true, beside: len(f.withheld) > 0}, w)
	if err != nil || out == again {
		return blob.Part{}, out, err
	}
	kept := false
	defer func() {
		if !kept {
			l.endPart(e.N, w)
		}
	}()
	if e.Gen = row.Gen; whole == 0 {
		e.Whole = row.partLength(e.N)
	}
	tail, out, err := s.tailOf(ctx, l, row, e)
	if err != nil || out == again {
		return blob.Part{}, out, err
	}
	p.left = e.Whole - e.At
	body := io.Reader(p)
	if row.Size == blob.UnknownSize {
		p.in = &granting{body: p.in, take: func(n drive.ByteSize) error { return s.receiver.take(context.WithoutCancel(ctx), l, w, n) }}
	}
	part, err := f.store(context.WithoutCancel(ctx), row, e, tail, w, blob.NewBody(body, blob.BodyOptions{
		N: e.N, Offset: drive.ByteSize(e.N) * row.PartSize, Size: blob.UnknownSize, Limit: p.left, Tail: tail,
	}))
	switch {
	case err == nil:
		kept = f.a.Verify != nil
		return part, settled, nil
	case drive.IsKind(err, drive.OffsetMismatch):
		return blob.Part{}, settled, err
	}
	out, err = s.receiver.notStaged(ctx, l, row, err, p.begun)
	return blob.Part{}, out, err
}

// store brings a piece to its place, where it counts unless all of the body must have come first.
func (f *filling) store(ctx context.Context, row Row, e blob.Extend, tail *blob.Tail, w *partWriter, body blob.Body) (blob.Part, error) {
	if f.a.Verify != nil {
		return f.withhold(ctx, row, e, body, tail, w)
	}
	part, err := f.s.staging.Extend(ctx, row.Ref(), e, body)
	if err == nil {
		f.took(ctx, part, e, tail, w)
	}
	return part, err
}

// took notes what the staging has entered.
func (f *filling) took(ctx context.Context, part blob.Part, e blob.Extend, tail *blob.Tail, w *partWriter) {
	f.l.keepTail(tail, part, e)
	f.s.receiver.received(ctx, f.l, w, part, part.Size < e.Whole)
}

// elsewhere is the refusal of bytes that would go on where the upload does not end, though memory
// said so, or where a part is already. It returns where the upload ends.
func (s *filler) elsewhere(ctx context.Context, who drive.Who, l *live, p *piece, sent drive.ByteSize) (drive.ByteSize, error) {
	l.forget()
	if p.begun {
		return sent, drive.Fail(drive.InProgress, "retry_after", 1)
	}
	_, offset, err := s.stand(ctx, who, l)
	if err != nil {
		return sent, err
	}
	return offset, mismatch(offset, sent)
}

// keepTail remembers the hashes of a tail for the next piece.
func (l *live) keepTail(tail *blob.Tail, part blob.Part, e blob.Extend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail = nil; part.Size < e.Whole && l.parts != nil {
		l.tail, l.tailN = tail, e.N
	} else {
		tail.Close()
	}
}

// tailOf takes the hashes of a tail out of memory, or makes them of its bytes: one part at the most
// is read.
func (s *filler) tailOf(ctx context.Context, l *live, row Row, e blob.Extend) (*blob.Tail, outcome, error) {
	l.mu.Lock()
	tail, n, have := l.tail, l.tailN, l.tails[e.N]
	l.tail = nil
	l.mu.Unlock()
	offset := drive.ByteSize(e.N) * row.PartSize
	switch {
	case e.At == 0:
		return blob.NewTail(offset), settled, nil
	case tail != nil && n == e.N && tail.Size() == e.At && tail.Part(n, offset, have.Session).CV == have.CV:
		return tail, settled, nil
	}
	return s.rereadTail(ctx, l, row, e, have)
}

// rereadTail hashes the bytes of a tail that this process has not taken in itself. Bytes that are
// not what they were are taken back.
func (s *filler) rereadTail(ctx context.Context, l *live, row Row, e blob.Extend, have blob.Part) (*blob.Tail, outcome, error) {
	tail := blob.NewTail(drive.ByteSize(e.N) * row.PartSize)
	err := readTail(ctx, s.staging, row, e, tail)
	if drive.IsKind(err, drive.NotFound) { // it was dropped, or became a part; whoever did has moved on
		l.forget()
		return nil, again, nil
	}
	if err == nil && !have.Unread && tail.Part(e.N, drive.ByteSize(e.N)*row.PartSize, have.Session) != have {
		err = fmt.Errorf("the tail of part %d of upload %s has other bytes than were accepted", e.N, row.ID)
		s.log.ErrorContext(ctx, "a tail is damaged and dropped", "upload", row.ID, "part", e.N)
		l.forget()
		return nil, settled, errors.Join(err, s.staging.Drop(ctx, row.Ref(), row.Gen, e.N))
	}
	if err != nil {
		return nil, settled, err
	}
	return tail, settled, nil
}

// readTail hashes the bytes of a tail.
func readTail(ctx context.Context, staging blob.Staging, row Row, e blob.Extend, tail *blob.Tail) error {
	r, err := staging.OpenTail(ctx, row.Ref(), e.N)
	if err != nil {
		return err
	}
	n, err := io.Copy(tail, r)
	if err == nil && drive.ByteSize(n) != e.At {
		err = drive.Fail(drive.NotFound) // somebody else has moved it on
	}
	return errors.Join(err, r.Close())
}
