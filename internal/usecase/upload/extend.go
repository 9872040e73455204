package upload

import (
	"context"
	"errors"
	"fmt"
	"io"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// partBody reads the share of a request body that belongs to one part. If the body fails early,
// Read returns io.EOF and records the failure in cause, so that the bytes before it are kept.
type piece struct {
	in      io.Reader
	left    drive.ByteSize
	stopped func() error
	begun   bool  // at least one Read of the body was made
	cause   error // why the body ended early; nil: it did not
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

// endOf returns the file offset at which a part or tail ends.
func endOf(p blob.Part, partSize drive.ByteSize) drive.ByteSize {
	return drive.ByteSize(p.N)*partSize + p.Size
}

// extend appends p to the part at r.offset. whole is the part's full length; 0 takes it from the
// row. On OffsetMismatch it looks up the real end of the upload, stores it in r.offset (unless the
// body is verified), and returns the error for the client.
func (f *filling) extend(ctx context.Context, p *piece, whole drive.ByteSize) (blob.Part, outcome, error) {
	part, out, err := f.write(ctx, p, whole)
	if drive.IsKind(err, drive.OffsetMismatch) { // the part's writer is unregistered now, so waiting for the state lock cannot deadlock
		var at drive.ByteSize
		if at, err = f.s.elsewhere(ctx, f.who, f.l, p, f.offset); f.a.Verify == nil {
			f.offset = at
		}
	}
	return part, out, err
}

// writeExtend is extend without that look-up: OffsetMismatch means that r.offset is not the end of
// the upload.
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

// store writes a piece to the staging. If the request declared a digest the piece is withheld;
// otherwise it counts at once.
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

// noteStored records a piece that the staging has journaled: its tail hash and its part.
func (f *filling) took(ctx context.Context, part blob.Part, e blob.Extend, tail *blob.Tail, w *partWriter) {
	f.l.keepTail(tail, part, e)
	f.s.receiver.received(ctx, f.l, w, part, part.Size < e.Whole)
}

// mismatchError builds the error for bytes that do not start at the upload's end, and returns that
// end. If part of the body was already read, the end stays sent and the error is InProgress, so
// that the client asks for the offset.
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

// cacheTail keeps the hash state of an unfinished part for the next piece. It closes tail if the
// part is complete.
func (l *live) keepTail(tail *blob.Tail, part blob.Part, e blob.Extend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail = nil; part.Size < e.Whole && l.parts != nil {
		l.tail, l.tailN = tail, e.N
	} else {
		tail.Close()
	}
}

// loadTail returns the hash state of the bytes before e.At: the cached one, or one computed by
// reading the tail, which is at most one part.
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

// rereadTail hashes a tail whose hash state is not in memory. If its bytes differ from the accepted
// ones, it drops the tail and fails. outcome is retry if the tail is no longer there.
func (s *filler) rereadTail(ctx context.Context, l *live, row Row, e blob.Extend, have blob.Part) (*blob.Tail, outcome, error) {
	tail := blob.NewTail(drive.ByteSize(e.N) * row.PartSize)
	err := readTail(ctx, s.staging, row, e, tail)
	if drive.IsKind(err, drive.NotFound) { // a concurrent request dropped it or completed the part
		l.forget()
		return nil, again, nil
	}
	if err == nil && !have.Unread && tail.Part(e.N, drive.ByteSize(e.N)*row.PartSize, have.Session) != have {
		err = fmt.Errorf("the tail of part %d of upload %s has other bytes than were accepted", e.N, row.ID)
		s.log.ErrorContext(ctx, "staged bytes of an upload are damaged and were dropped; the client must send this part again", "upload", row.ID, "part", e.N)
		l.forget()
		return nil, settled, errors.Join(err, s.staging.Drop(ctx, row.Ref(), row.Gen, e.N))
	}
	if err != nil {
		return nil, settled, err
	}
	return tail, settled, nil
}

// readTail hashes the staged tail of part e.N into tail. It returns NotFound if the tail is missing
// or is not exactly e.At bytes.
func readTail(ctx context.Context, staging blob.Staging, row Row, e blob.Extend, tail *blob.Tail) error {
	r, err := staging.OpenTail(ctx, row.Ref(), e.N)
	if err != nil {
		return err
	}
	n, err := io.Copy(tail, r)
	if err == nil && drive.ByteSize(n) != e.At {
		err = drive.Fail(drive.NotFound) // a concurrent request has extended it
	}
	return errors.Join(err, r.Close())
}
