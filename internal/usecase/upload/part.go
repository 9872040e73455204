package upload

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/usecase/upload/disk"
)

// PutPart describes the part that a request brings.
type PutPart struct {
	N      int
	Size   drive.ByteSize   // exact body length; negative: not declared
	Verify *digest.Verifier // digest declared by the request (Content-Digest); nil: none
	open   bool             // length unknown: Size is zero, and space is reserved as bytes arrive
	drop   bool             // the part is to be removed, which needs no space
	beside bool             // other parts of the same body are being written: return InProgress instead of waiting for them
}

// errSuperseded is the cancellation cause of a request whose bytes are being sent again.
var errSuperseded = errors.New("the part is being sent again")

// Put stores one part. Parts may come in any order, in parallel and repeatedly. When Put returns
// nil the part survives kill -9 (P2). The same bytes are accepted again; other bytes are
// PartDiffers. Put needs no database access while the upload is active and cached (P5). A second
// Put of the same part interrupts the first.
//
// Errors: NotFound, Gone {reason}, WrongState {state}, PartRange, PartSize, LengthRequired,
// DigestMismatch, PartDiffers, Quota, DiskFull, InProgress.
func (s *Sessions) Put(ctx context.Context, who drive.Who, id drive.UploadID, p PutPart, body io.Reader) error {
	return s.receiver.putAll(ctx, who, id, p, body)
}

// DeletePart removes a part, so that other bytes can be sent in its place. Removing a part that is
// not there is no error.
func (s *Sessions) DeletePart(ctx context.Context, who drive.Who, id drive.UploadID, n int) error {
	return s.receiver.drop(ctx, who, id, n)
}

// receiver stores parts: it admits writers, handles staging errors, and reserves space for files of
// unknown length.
type receiver struct {
	table      *table
	db         *sqldb.DB
	ledger     quota.Ledger
	staging    blob.Staging
	disk       *disk.Promises
	sched      *schedule
	follow     *followers
	now        func() drive.Time
	touchEvery time.Duration
	shared     bool
	wake       func(ctx context.Context, who drive.Who, id drive.UploadID) error // prepares an upload for parts
}

// putWithRetry retries put if the upload changed before the first byte was read.
func (s *receiver) putAll(ctx context.Context, who drive.Who, id drive.UploadID, p PutPart, body io.Reader) error {
	if p.Size < 0 {
		return drive.Fail(drive.LengthRequired)
	}
	l := s.table.enter(id)
	defer s.table.leave(l)
	return attempts(func() (outcome, error) { return s.put(ctx, who, l, p, body) })
}

// put is one attempt to store a part.
func (s *receiver) put(ctx context.Context, who drive.Who, l *live, p PutPart, body io.Reader) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &partWriter{cancel: func() { cancel(errSuperseded) }, done: make(chan struct{})}
	row, out, err := s.admit(ctx, who, l, p, w)
	if err != nil || out == again {
		return out, err
	}
	defer l.endPart(p.N, w)
	if c, ok := body.(io.Closer); ok { // unblocks a read that waits for a stalled client
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	}
	in := &activity{body: body, touch: func() { s.touch(l, row) }, every: s.touchEvery, now: s.now}
	opt := blob.BodyOptions{
		N: p.N, Offset: drive.ByteSize(p.N) * row.PartSize, Size: p.Size, Session: who.Session, Verify: p.Verify,
	}
	if p.open {
		opt.Size, opt.Limit = blob.UnknownSize, row.PartSize
		in.body = &granting{body: body, take: func(n drive.ByteSize) error { return s.take(ctx, l, w, n) }}
	}
	checked := blob.NewBody(in, opt)
	part, err := s.staging.Write(ctx, row.Ref(), blob.Write{N: p.N, Gen: row.Gen, Session: who.Session, Size: opt.Size}, checked)
	if err == nil {
		s.received(ctx, l, w, part, false)
		return settled, nil
	}
	if there, ok := errors.AsType[*blob.ThereError](err); ok {
		return s.there(ctx, l, row, in, checked, there.Part)
	}
	if errors.Is(context.Cause(ctx), errSuperseded) {
		return settled, superseded(ctx, err)
	}
	return s.notStaged(ctx, l, row, err, in.begun)
}

// busyIfSuperseded maps err to InProgress if the request was cancelled because its part is being
// sent again; then the read error is not the body's fault.
func superseded(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSuperseded) {
		return drive.Wrap(err, drive.InProgress, "retry_after", 1)
	}
	return err
}

// received records a part, or with tail an unfinished part, that the staging has accepted.
func (s *receiver) received(ctx context.Context, l *live, w *partWriter, part blob.Part, tail bool) {
	row, resumed := l.accept(w, part, tail)
	s.touch(l, row)
	if resumed {
		s.sched.arm(ctx, row) // its idle time is no longer doubled
	}
	s.follow.start(l)
}

// handleWriteError interprets an error of the staging's Write or Drop. begun: part of the body was
// read, so the attempt cannot be repeated.
func (s *receiver) notStaged(ctx context.Context, l *live, row Row, err error, begun bool) (outcome, error) {
	switch {
	case drive.IsKind(err, drive.WrongState): // fenced by a failed transition, or by one this process has not seen
		l.refuse(row.Gen)
		l.forget()
		return repeat(begun)
	case drive.IsKind(err, drive.NotFound): // removed from outside, or by a concurrent cancel
		return s.vanished(ctx, l, row, err, begun)
	case drive.IsKind(err, drive.Unavailable): // the part may have been accepted
		l.forget()
	}
	return settled, err
}

// compare reads a body and returns PartDiffers if it differs from the received part.
func compare(body blob.Body, have blob.Part) error {
	buf := compareBuffers.Get().(*[]byte)
	defer compareBuffers.Put(buf)
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, body, *buf); err != nil {
		return err
	}
	part, err := body.Finish()
	if err != nil {
		return err
	}
	if part.CV != have.CV || part.Size != have.Size {
		return drive.Fail(drive.PartDiffers, "part", have.N)
	}
	return nil
}

const compareBufferSize = 64 << 10 // bytes; larger buffers are not faster

var compareBuffers = sync.Pool{New: func() any { b := make([]byte, compareBufferSize); return &b }}

// admit registers w as the writer of its part once the upload can accept it: loaded, active,
// verified, with enough space reserved. It interrupts an earlier writer of the same part. After
// success the caller must call unregisterWriter.
func (s *receiver) admit(ctx context.Context, who drive.Who, l *live, p PutPart, w *partWriter) (Row, outcome, error) {
	if err := s.disk.MayWrite(ctx, who.Account, max(1, p.Size)); err != nil {
		return Row{}, settled, err
	}
	for {
		row, next, err := l.tryPart(who, p, w)
		switch {
		case err != nil:
			out, err := s.unlessStale(ctx, l, err)
			return Row{}, out, err
		case next == nil:
			return row, settled, nil
		}
		if err := next(ctx, s, l, who); err != nil {
			return Row{}, settled, err
		}
	}
}

// admitStep is an action that must precede the admission of a part; admit then tries again.
type step func(ctx context.Context, s *receiver, l *live, who drive.Who) error

// tryAdmit registers w, or returns the step that must come first. It does not decide whether the
// part was already received; the staging does.
func (l *live) tryPart(who drive.Who, p PutPart, w *partWriter) (row Row, next step, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	row = l.row
	may := true
	if l.loaded {
		if may, err = l.mayLocked(who); err != nil {
			return Row{}, nil, err
		}
	}
	switch {
	case l.shut == refusing:
		return Row{}, nil, l.why
	case !l.ready() || !may:
		if p.beside {
			return Row{}, nil, drive.Fail(drive.InProgress, "retry_after", 1)
		}
		return Row{}, wake, nil
	}
	if err := row.checkPart(p); err != nil {
		return Row{}, nil, err
	}
	size := max(0, p.Size-l.parts[p.N].Size) // a part already received is only compared, or was dropped elsewhere
	if need := l.received + l.incoming + size; row.Size == blob.UnknownSize && !p.drop && need > l.limit {
		return Row{}, func(ctx context.Context, s *receiver, l *live, _ drive.Who) error { return s.makeRoom(ctx, l, need) }, nil
	}
	if before := l.beginPart(p.N, size, w); before != nil {
		return Row{}, func(ctx context.Context, _ *receiver, _ *live, _ drive.Who) error { return before.end(ctx) }, nil
	}
	return row, nil, nil
}

// stop cancels the writer and waits for its end; InProgress if ctx ends first.
func (w *partWriter) end(ctx context.Context) error {
	w.cancel()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
	}
}

// checkPart returns PartRange or PartSize if p does not fit the upload.
func (r Row) checkPart(p PutPart) error {
	if p.N < 0 || p.N >= r.Parts() {
		return drive.Fail(drive.PartRange, "limit", r.Parts()-1, "max", r.Parts()-1, "sent", p.N)
	}
	want := r.partLength(p.N)
	if !p.open && (r.Size != blob.UnknownSize && p.Size != want || p.Size > want || p.Size == 0) {
		last := r.partLength(r.Parts() - 1)
		return drive.Fail(drive.PartSize, "limit", want, "part_size", r.PartSize, "last", last, "sent", p.Size)
	}
	return nil
}

// addPart caches an accepted part or tail. resumed reports that it is the first since the upload
// was resumed.
func (l *live) accept(w *partWriter, part blob.Part, tail bool) (row Row, resumed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepts++
	if l.parts == nil { // invalidated: the journal has the part
		return Row{ID: l.id}, false
	}
	l.incoming, w.size = l.incoming-w.size, 0                           // from here on it counts as received
	if have, ok := l.parts[part.N]; ok && l.of.shared && !have.Unread { // another instance dropped it, and may use its space
		l.limit -= have.Size // it was dropped elsewhere, where its room may be used
	}
	l.enterLocked(part, tail)
	resumed = l.row.Resumes > 0
	l.row.Resumes = 0
	l.promiseLocked()
	return l.row, resumed
}

// putPartLocked caches a part or tail, replacing an earlier one of that number. The caller holds
// l.mu.
func (l *live) enterLocked(part blob.Part, tail bool) {
	l.received += part.Size - l.parts[part.N].Size - l.tails[part.N].Size
	delete(l.parts, part.N)
	delete(l.tails, part.N)
	if tail {
		l.tails[part.N] = part
	} else {
		l.parts[part.N] = part
	}
}

// drop implements Sessions.DeletePart.
func (s *receiver) drop(ctx context.Context, who drive.Who, id drive.UploadID, n int) error {
	l := s.table.enter(id)
	defer s.table.leave(l)
	return attempts(func() (outcome, error) { return s.deletePart(ctx, who, l, n) })
}

// deletePart is one attempt of drop.
func (s *receiver) deletePart(ctx context.Context, who drive.Who, l *live, n int) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &partWriter{cancel: cancel, done: make(chan struct{})}
	row, out, err := s.admit(ctx, who, l, PutPart{N: n, open: true, drop: true}, w)
	if err != nil || out == again {
		return out, err
	}
	defer l.endPart(n, w)
	if err := s.staging.Drop(ctx, row.Ref(), row.Gen, n); err != nil {
		l.forget() // the journal may have dropped it: repeated bytes must not be answered from the cache
		return s.notStaged(ctx, l, row, err, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepts++
	if l.parts == nil {
		return settled, nil
	}
	l.received -= l.parts[n].Size + l.tails[n].Size
	delete(l.parts, n)
	delete(l.tails, n)
	l.unfollowLocked()
	l.promiseLocked()
	return settled, nil
}

// reservingReader reserves space for the bytes read before it returns them.
type granting struct {
	body io.Reader
	take func(drive.ByteSize) error
}

func (g *granting) Read(p []byte) (int, error) {
	n, err := g.body.Read(p)
	if takeErr := g.take(drive.ByteSize(n)); takeErr != nil {
		return 0, takeErr
	}
	return n, err
}

// countIncoming adds n bytes to the incoming bytes of w, and enlarges the reservation if they do
// not fit.
func (s *receiver) take(ctx context.Context, l *live, w *partWriter, n drive.ByteSize) error {
	l.mu.Lock()
	l.incoming += n
	w.size += n
	need, fits := l.received+l.incoming, l.received+l.incoming <= l.limit
	l.mu.Unlock()
	if fits {
		return nil
	}
	out, err := s.grow(ctx, l, need)
	if err == nil && out == again { // the bytes read cannot be read again
		err = comeAgain()
	}
	return err
}

// touchReader touches the upload's timer while bytes arrive, at most once per interval.
type activity struct {
	body  io.Reader
	touch func()
	every time.Duration
	now   func() drive.Time
	last  drive.Time
	begun bool // Read was called
}

func (a *activity) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	a.begun = true
	if n > 0 {
		if now := a.now(); int64(now-a.last) >= a.every.Milliseconds() {
			a.last = now
			a.touch()
		}
	}
	return n, err
}

// touch records activity of the upload in memory and at its timer.
func (s *receiver) touch(l *live, row Row) {
	l.touch(s.now())
	s.sched.touch(row.ID)
}
