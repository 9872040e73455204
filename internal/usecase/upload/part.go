package upload

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/usecase/upload/disk"
)

// PutPart describes the part that a request brings: its number from 0 and its length.
type PutPart struct {
	N          int
	Size       drive.ByteSize   // exact body length; negative: not declared
	Verify     *digest.Verifier // digest declared by the request (Content-Digest); nil: none
	open       bool             // length unknown: Size is zero, and space is reserved as bytes arrive
	drop       bool             // the part is to be removed, which needs no space
	concurrent bool             // other parts of the same body are being written: return InProgress instead of waiting for them
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
	return s.receiver.putWithRetry(ctx, who, id, p, body)
}

// DeletePart removes a part, so that other bytes can be sent in its place. Removing a part that is
// not there is no error.
func (s *Sessions) DeletePart(ctx context.Context, who drive.Who, id drive.UploadID, n int) error {
	return s.receiver.drop(ctx, who, id, n)
}

// receiver stores parts: it admits writers, handles staging errors, and reserves space for files of
// unknown length.
type receiver struct {
	table      *liveTable
	db         *sqldb.DB
	ledger     quota.Ledger
	staging    blob.Staging
	disk       *disk.Reservations
	sched      *schedule
	hashers    *hashers
	now        func() drive.Time
	touchEvery time.Duration
	shared     bool
	makeReady  func(ctx context.Context, who drive.Who, id drive.UploadID) error // prepares an upload for parts
}

// putWithRetry stores a part and retries if the upload changed before the first byte was read. It
// returns LengthRequired for a negative size, errBusy after maxAttempts, and the errors of put.
func (r *receiver) putWithRetry(ctx context.Context, who drive.Who, id drive.UploadID, p PutPart, body io.Reader) error {
	if p.Size < 0 {
		return drive.Fail(drive.LengthRequired)
	}
	l := r.table.acquire(id)
	defer r.table.release(l)
	return withRetry(func() (outcome, error) { return r.put(ctx, who, l, p, body) })
}

// put is one attempt to store a part. It returns retry, with the body untouched, if the upload
// changed concurrently. A part that is stored already is compared with the body instead, and a
// later request for the same part interrupts this one with InProgress.
func (r *receiver) put(ctx context.Context, who drive.Who, l *liveUpload, p PutPart, body io.Reader) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &partWriter{cancel: func() { cancel(errSuperseded) }, done: make(chan struct{})}
	row, out, err := r.admit(ctx, who, l, p, w)
	if err != nil || out == retry {
		return out, err
	}
	defer l.unregisterWriter(p.N, w)
	if c, ok := body.(io.Closer); ok { // unblocks a read that waits for a stalled client
		defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	}
	in := &touchReader{body: body, touch: func() { r.touch(l, row) }, every: r.touchEvery, now: r.now}
	opt := blob.BodyOptions{
		N: p.N, Offset: drive.ByteSize(p.N) * row.PartSize, Size: p.Size, Session: who.Session, Verify: p.Verify,
	}
	if p.open {
		opt.Size, opt.Limit = blob.UnknownSize, row.PartSize
		in.body = &reservingReader{body: body, reserve: func(n drive.ByteSize) error { return r.countIncoming(ctx, l, w, n) }}
	}
	checked := blob.NewBody(in, opt)
	part, err := r.staging.Write(ctx, row.Ref(), blob.Write{N: p.N, Gen: row.Gen, Session: who.Session, Size: opt.Size}, checked)
	if err == nil {
		r.received(ctx, l, w, part, false)
		return finished, nil
	}
	if there, ok := errors.AsType[*blob.PartExistsError](err); ok {
		return r.alreadyStaged(ctx, l, row, in, checked, there.Part)
	}
	if errors.Is(context.Cause(ctx), errSuperseded) {
		return finished, busyIfSuperseded(ctx, err)
	}
	return r.handleWriteError(ctx, l, row, err, in.begun)
}

// busyIfSuperseded maps err to InProgress if a later request cancelled this one (errSuperseded);
// the read error is then not the body's fault. nil stays nil, and other errors are unchanged.
func busyIfSuperseded(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSuperseded) {
		return drive.Wrap(err, drive.InProgress, "retry_after", 1)
	}
	return err
}

// received records a part, or with tail an unfinished part, that the staging has accepted.
func (r *receiver) received(ctx context.Context, l *liveUpload, w *partWriter, part blob.Part, tail bool) {
	row, resumed := l.addPart(w, part, tail)
	r.touch(l, row)
	if resumed {
		r.sched.arm(ctx, row) // its idle time is no longer doubled
	}
	r.hashers.start(l)
}

// handleWriteError interprets an error of the staging's Write, Extend or Drop. It returns retry if
// the staging refused the gen and nothing of the body was read; begun says that part of it was, and
// the result is errBusy then. If the staging is missing it returns the result of stagingGone. Other
// errors are returned as they are. It invalidates the cache if that may be stale.
func (r *receiver) handleWriteError(ctx context.Context, l *liveUpload, row Row, err error, begun bool) (outcome, error) {
	switch {
	case drive.IsKind(err, drive.WrongState): // fenced by a failed transition, or by one this process has not seen
		l.noteFenced(row.Gen)
		l.invalidate()
		return retryUnlessRead(begun)
	case drive.IsKind(err, drive.NotFound): // removed from outside, or by a concurrent cancel
		return r.stagingGone(ctx, l, row, err, begun)
	case drive.IsKind(err, drive.Unavailable): // the part may have been accepted
		l.invalidate()
	}
	return finished, err
}

// compare reads body to its end and returns PartDiffers unless size and digest are those of the
// received part. Other errors are those of body.
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

// compareBuffers holds buffers of compareBufferSize bytes, as *[]byte, for comparing a body with a
// stored part.
var compareBuffers = sync.Pool{New: func() any { b := make([]byte, compareBufferSize); return &b }}

// admit registers w as the writer of its part once the upload can accept it: loaded, active,
// verified, with enough space reserved. It interrupts an earlier writer of the same part. After
// success the caller must call unregisterWriter.
func (r *receiver) admit(ctx context.Context, who drive.Who, l *liveUpload, p PutPart, w *partWriter) (Row, outcome, error) {
	if err := r.disk.CheckWrite(ctx, who.Account, max(1, p.Size)); err != nil {
		return Row{}, finished, err
	}
	for {
		row, next, err := l.tryAdmit(who, p, w)
		switch {
		case err != nil:
			out, err := r.retryIfMoved(ctx, l, err)
			return Row{}, out, err
		case next == nil:
			return row, finished, nil
		}
		if err := next(ctx, r, l, who); err != nil {
			return Row{}, finished, err
		}
	}
}

// admitStep is an action that must precede the admission of a part; admit then tries again.
type admitStep func(ctx context.Context, s *receiver, l *liveUpload, who drive.Who) error

// tryAdmit registers w as the writer of the part and returns a nil step, or returns the step that
// must come first. It fails if who may not use the upload, parts are refused, or the number or size
// of the part is wrong. It does not decide whether the part was already received; the staging does.
func (l *liveUpload) tryAdmit(who drive.Who, p PutPart, w *partWriter) (row Row, next admitStep, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	row = l.row
	may := true
	if l.loaded {
		if may, err = l.authorizedLocked(who); err != nil {
			return Row{}, nil, err
		}
	}
	switch {
	case l.admission == admitRefuse:
		return Row{}, nil, l.refusal
	case !l.ready() || !may:
		if p.concurrent {
			return Row{}, nil, drive.Fail(drive.InProgress, "retry_after", 1)
		}
		return Row{}, wakeStep, nil
	}
	if err := row.checkPart(p); err != nil {
		return Row{}, nil, err
	}
	size := max(0, p.Size-l.parts[p.N].Size) // a part already received is only compared, or was dropped elsewhere
	if need := l.received + l.incoming + size; row.Size == blob.UnknownSize && !p.drop && need > l.limit {
		return Row{}, func(ctx context.Context, s *receiver, l *liveUpload, _ drive.Who) error {
			return s.growStep(ctx, l, need)
		}, nil
	}
	if before := l.registerWriter(p.N, size, w); before != nil {
		return Row{}, func(ctx context.Context, _ *receiver, _ *liveUpload, _ drive.Who) error { return before.stop(ctx) }, nil
	}
	return row, nil, nil
}

// stop cancels the writer and waits for its end; InProgress if ctx ends first.
func (w *partWriter) stop(ctx context.Context) error {
	w.cancel()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
	}
}

// checkPart returns PartRange if the upload has no part p.N, and PartSize unless p.Size is the
// length that the part must have. With unknown upload size any length from 1 to the part size fits.
// An open p has no length to check.
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

// addPart caches an accepted part or tail and returns the cached row. resumed reports that it is
// the first part since the upload was resumed. If the cache was invalidated meanwhile, it caches
// nothing and returns a row with only the ID.
func (l *liveUpload) addPart(w *partWriter, part blob.Part, tail bool) (row Row, resumed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepts++
	if l.parts == nil { // invalidated: the journal has the part
		return Row{ID: l.id}, false
	}
	l.incoming, w.size = l.incoming-w.size, 0 // from here on it counts as received
	if have, ok := l.parts[part.N]; ok && l.table.shared && !have.Unread {
		l.limit -= have.Size // another instance dropped it, and may use its space
	}
	l.putPartLocked(part, tail)
	resumed = l.row.Resumes > 0
	l.row.Resumes = 0
	l.promiseLocked()
	return l.row, resumed
}

// putPartLocked caches a part or tail, replacing an earlier one of that number. The caller holds
// l.mu.
func (l *liveUpload) putPartLocked(part blob.Part, tail bool) {
	l.received += part.Size - l.parts[part.N].Size - l.tails[part.N].Size
	delete(l.parts, part.N)
	delete(l.tails, part.N)
	if tail {
		l.tails[part.N] = part
	} else {
		l.parts[part.N] = part
	}
}

// drop deletes part n of an upload, whether complete or a tail, and interrupts a request that is
// writing it. A part that was not received is no error. It returns NotFound, Gone {reason} or
// WrongState {state} for an upload that accepts no changes, and errBusy after maxAttempts
// concurrent changes.
func (r *receiver) drop(ctx context.Context, who drive.Who, id drive.UploadID, n int) error {
	l := r.table.acquire(id)
	defer r.table.release(l)
	return withRetry(func() (outcome, error) { return r.deletePart(ctx, who, l, n) })
}

// deletePart is one attempt of drop: it deletes the part from the staging and from the cache of l.
// It returns retry if the upload changed concurrently. If the staging fails, the cache is marked
// stale because the part may be gone.
func (r *receiver) deletePart(ctx context.Context, who drive.Who, l *liveUpload, n int) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &partWriter{cancel: cancel, done: make(chan struct{})}
	row, out, err := r.admit(ctx, who, l, PutPart{N: n, open: true, drop: true}, w)
	if err != nil || out == retry {
		return out, err
	}
	defer l.unregisterWriter(n, w)
	if err := r.staging.Drop(ctx, row.Ref(), row.Gen, n); err != nil {
		l.invalidate() // the journal may have dropped it: repeated bytes must not be answered from the cache
		return r.handleWriteError(ctx, l, row, err, false)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepts++
	if l.parts == nil {
		return finished, nil
	}
	l.received -= l.parts[n].Size + l.tails[n].Size
	delete(l.parts, n)
	delete(l.tails, n)
	l.resetHasherLocked()
	l.promiseLocked()
	return finished, nil
}

// reservingReader reserves space for the bytes read before it returns them.
type reservingReader struct {
	body    io.Reader
	reserve func(drive.ByteSize) error
}

// Read reads from body and reserves space for the bytes before it returns them. If the reservation
// fails it returns 0 bytes and that error; the bytes read are lost.
func (r *reservingReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if takeErr := r.reserve(drive.ByteSize(n)); takeErr != nil {
		return 0, takeErr
	}
	return n, err
}

// countIncoming adds n bytes to the incoming bytes of w, and enlarges the reservation if they do
// not fit. It fails with Quota or DiskFull, and with errBusy if the upload changed concurrently,
// because the bytes cannot be read again.
func (r *receiver) countIncoming(ctx context.Context, l *liveUpload, w *partWriter, n drive.ByteSize) error {
	l.mu.Lock()
	l.incoming += n
	w.size += n
	need, fits := l.received+l.incoming, l.received+l.incoming <= l.limit
	l.mu.Unlock()
	if fits {
		return nil
	}
	out, err := r.grow(ctx, l, need)
	if err == nil && out == retry { // the bytes read cannot be read again
		err = errBusy()
	}
	return err
}

// touchReader touches the upload's timer while bytes arrive, at most once per interval.
type touchReader struct {
	body  io.Reader
	touch func()
	every time.Duration // least time between two calls of touch
	now   func() drive.Time
	last  drive.Time // time of the last call of touch
	begun bool       // Read was called
}

// Read reads from body and sets begun. If bytes arrived and the last call of touch is at least
// every ago, it calls touch.
func (r *touchReader) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	r.begun = true
	if n > 0 {
		if now := r.now(); int64(now-r.last) >= r.every.Milliseconds() {
			r.last = now
			r.touch()
		}
	}
	return n, err
}

// touch records that the upload is active now, in memory and at its park timer.
func (r *receiver) touch(l *liveUpload, row Row) {
	l.touch(r.now())
	r.sched.touch(row.ID)
}
