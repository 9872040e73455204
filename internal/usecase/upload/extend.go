package upload

import (
	"context"
	"errors"
	"fmt"
	"io"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// partBody reads the share of a request body that belongs to one part. If the body fails early,
// Read returns io.EOF and records the failure in cause, so that the bytes before it are kept.
type partBody struct {
	in      io.Reader
	left    drive.ByteSize
	stopped func() error
	begun   bool  // at least one Read of the body was made
	cause   error // why the body ended early; nil: it did not
}

// Read returns bytes of in, at most left in total. It never fails: if the request is stopped or in
// fails, it stores the error in cause and returns io.EOF, so that the staging keeps what has
// arrived.
func (b *partBody) Read(buf []byte) (int, error) {
	if b.left == 0 || b.cause != nil {
		return 0, io.EOF
	}
	if b.cause = b.stopped(); b.cause != nil {
		return 0, io.EOF
	}
	n, err := b.in.Read(buf[:min(int64(len(buf)), int64(b.left))])
	b.begun = true
	b.left -= drive.ByteSize(n)
	if err != nil && !errors.Is(err, io.EOF) {
		b.cause, err = err, io.EOF
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
func (r *appendRun) extend(ctx context.Context, p *partBody, whole drive.ByteSize) (blob.Part, outcome, error) {
	part, out, err := r.writeExtend(ctx, p, whole)
	if drive.IsKind(err, drive.OffsetMismatch) { // the part's writer is unregistered now, so waiting for the state lock cannot deadlock
		var at drive.ByteSize
		if at, err = r.appender.mismatchError(ctx, r.who, r.upload, p, r.offset); r.request.Verify == nil {
			r.offset = at
		}
	}
	return part, out, err
}

// writeExtend appends p to the part at r.offset and returns the part as staged. OffsetMismatch
// means that r.offset is not the end of the upload. It returns retry if the upload changed
// concurrently before the body was read. With request.Verify, the part's writer stays registered,
// because the bytes do not count yet.
func (r *appendRun) writeExtend(ctx context.Context, p *partBody, whole drive.ByteSize) (blob.Part, outcome, error) {
	s, l := r.appender, r.upload
	e := blob.Extend{N: int(r.offset / r.partSize), At: r.offset % r.partSize, Whole: whole}
	w := &partWriter{cancel: r.stop, done: make(chan struct{})}
	row, out, err := s.receiver.admit(ctx, r.who, l, PutPart{N: e.N, open: true, concurrent: len(r.withheld) > 0}, w)
	if err != nil || out == retry {
		return blob.Part{}, out, err
	}
	kept := false
	defer func() {
		if !kept {
			l.unregisterWriter(e.N, w)
		}
	}()
	if e.Gen = row.Gen; whole == 0 {
		e.Whole = row.partLength(e.N)
	}
	tail, out, err := s.loadTail(ctx, l, row, e)
	if err != nil || out == retry {
		return blob.Part{}, out, err
	}
	p.left = e.Whole - e.At
	body := io.Reader(p)
	if row.Size == blob.UnknownSize {
		p.in = &reservingReader{body: p.in, reserve: func(n drive.ByteSize) error { return s.receiver.countIncoming(context.WithoutCancel(ctx), l, w, n) }}
	}
	part, err := r.store(context.WithoutCancel(ctx), row, e, tail, w, blob.NewBody(body, blob.BodyOptions{
		N: e.N, Offset: drive.ByteSize(e.N) * row.PartSize, Size: blob.UnknownSize, Limit: p.left, Tail: tail,
	}))
	switch {
	case err == nil:
		kept = r.request.Verify != nil
		return part, finished, nil
	case drive.IsKind(err, drive.OffsetMismatch):
		return blob.Part{}, finished, err
	}
	out, err = s.receiver.handleWriteError(ctx, l, row, err, p.begun)
	return blob.Part{}, out, err
}

// store writes to the staging the bytes that extend one part, called a piece. If the request
// declared a digest, the piece is withheld: it counts only once the whole body was verified.
// Otherwise it counts at once.
func (r *appendRun) store(ctx context.Context, row Row, e blob.Extend, tail *blob.Tail, w *partWriter, body blob.Body) (blob.Part, error) {
	if r.request.Verify != nil {
		return r.withhold(ctx, row, e, body, tail, w)
	}
	part, err := r.appender.staging.Extend(ctx, row.Ref(), e, body)
	if err == nil {
		r.noteStored(ctx, part, e, tail, w)
	}
	return part, err
}

// noteStored caches the result of an Extend that the staging has journaled: the hash state of the
// tail, and the part or tail itself.
func (r *appendRun) noteStored(ctx context.Context, part blob.Part, e blob.Extend, tail *blob.Tail, w *partWriter) {
	r.upload.cacheTail(tail, part, e)
	r.appender.receiver.received(ctx, r.upload, w, part, part.Size < e.Whole)
}

// mismatchError returns the error for a body that does not start at the end of the upload, and that
// end. If part of the body was already read, it returns InProgress and sent unchanged, so that the
// client asks for the offset. Otherwise it looks up the end and returns OffsetMismatch. It
// invalidates the cache.
func (a *appender) mismatchError(ctx context.Context, who drive.Who, l *liveUpload, p *partBody, sent drive.ByteSize) (drive.ByteSize, error) {
	l.invalidate()
	if p.begun {
		return sent, drive.Fail(drive.InProgress, "retry_after", 1)
	}
	_, offset, err := a.prepare(ctx, who, l)
	if err != nil {
		return sent, err
	}
	return offset, mismatch(offset, sent)
}

// cacheTail keeps tail, the hash state of an unfinished part, for the next Extend of the part. It
// closes tail if the part is complete or the upload is not cached.
func (l *liveUpload) cacheTail(tail *blob.Tail, part blob.Part, e blob.Extend) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tail = nil; part.Size < e.Whole && l.parts != nil {
		l.tail, l.tailN = tail, e.N
	} else {
		tail.Close()
	}
}

// loadTail returns the hash state of the bytes before e.At in part e.N. It removes the cached one
// from l; if that does not match, it reads and hashes the stored tail, which is at most one part.
// The caller puts the state back with cacheTail. It returns retry if the stored tail is gone.
func (a *appender) loadTail(ctx context.Context, l *liveUpload, row Row, e blob.Extend) (*blob.Tail, outcome, error) {
	l.mu.Lock()
	tail, n, have := l.tail, l.tailN, l.tails[e.N]
	l.tail = nil
	l.mu.Unlock()
	offset := drive.ByteSize(e.N) * row.PartSize
	switch {
	case e.At == 0:
		return blob.NewTail(offset), finished, nil
	case tail != nil && n == e.N && tail.Size() == e.At && tail.Part(n, offset, have.Session).CV == have.CV:
		return tail, finished, nil
	}
	return a.rereadTail(ctx, l, row, e, have)
}

// rereadTail hashes a stored tail whose hash state is not in memory. If its bytes differ from the
// accepted ones, have, it drops the tail from the staging and fails. It returns retry if the tail
// is missing or does not end at e.At.
func (a *appender) rereadTail(ctx context.Context, l *liveUpload, row Row, e blob.Extend, have blob.Part) (*blob.Tail, outcome, error) {
	tail := blob.NewTail(drive.ByteSize(e.N) * row.PartSize)
	err := readTail(ctx, a.staging, row, e, tail)
	if drive.IsKind(err, drive.NotFound) { // a concurrent request dropped it or completed the part
		l.invalidate()
		return nil, retry, nil
	}
	if err == nil && !have.Unread && tail.Part(e.N, drive.ByteSize(e.N)*row.PartSize, have.Session) != have {
		err = fmt.Errorf("the tail of part %d of upload %s has other bytes than were accepted", e.N, row.ID)
		a.log.ErrorContext(ctx, "staged bytes of an upload are damaged and were dropped; the client must send this part again", "upload", row.ID, "part", e.N)
		l.invalidate()
		return nil, finished, errors.Join(err, a.staging.Drop(ctx, row.Ref(), row.Gen, e.N))
	}
	if err != nil {
		return nil, finished, err
	}
	return tail, finished, nil
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
