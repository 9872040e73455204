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

// PutPart says which part a request brings.
type PutPart struct {
	N      int
	Size   drive.ByteSize   // exact length of the body; negative: the request did not say
	Verify *digest.Verifier // what the request declared of its bytes (Content-Digest); nil: nothing
	open   bool             // the length is not known: Size is zero, and room is reserved as bytes come
	drop   bool             // it is taken back, which needs no room
	beside bool             // other parts of the same body are being written: what would wait for those is InProgress
}

// errSuperseded is the cause with which a request is cancelled whose bytes are being sent again.
var errSuperseded = errors.New("the part is being sent again")

// Put stores one part: any order, in parallel, any number of times. When it returns nil the part
// survives kill -9 (P2). The same bytes again are accepted, other bytes are PartDiffers. It does no
// database access while the upload is active and in memory (P5). A second Put of the same part ends
// the first.
//
// Errors: NotFound, Gone {reason}, WrongState {state}, PartRange, PartSize, LengthRequired,
// DigestMismatch, PartDiffers, Quota, DiskFull, InProgress.
func (s *Sessions) Put(ctx context.Context, who drive.Who, id drive.UploadID, p PutPart, body io.Reader) error {
	return s.receiver.putAll(ctx, who, id, p, body)
}

// DeletePart takes a part back, so that other bytes can be sent in its place. One that is not there
// is no error.
func (s *Sessions) DeletePart(ctx context.Context, who drive.Who, id drive.UploadID, n int) error {
	return s.receiver.drop(ctx, who, id, n)
}

// receiver takes parts in: who may write one, what the staging says to it, and room for a file of
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
	wake       func(ctx context.Context, who drive.Who, id drive.UploadID) error // brings an upload to where a part can be admitted
}

// putAll is put, and once more where the upload has changed before the first byte.
func (s *receiver) putAll(ctx context.Context, who drive.Who, id drive.UploadID, p PutPart, body io.Reader) error {
	if p.Size < 0 {
		return drive.Fail(drive.LengthRequired)
	}
	l := s.table.enter(id)
	defer s.table.leave(l)
	return attempts(func() (outcome, error) { return s.put(ctx, who, l, p, body) })
}

// put is one attempt.
func (s *receiver) put(ctx context.Context, who drive.Who, l *live, p PutPart, body io.Reader) (outcome, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &partWriter{cancel: func() { cancel(errSuperseded) }, done: make(chan struct{})}
	row, out, err := s.admit(ctx, who, l, p, w)
	if err != nil || out == again {
		return out, err
	}
	defer l.endPart(p.N, w)
	if c, ok := body.(io.Closer); ok { // a read that waits for a stalled client ends with the part
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

// superseded is err, or InProgress where the request was ended because its part is being sent
// again: that is not a fault of its body, though reading it failed.
func superseded(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errSuperseded) {
		return drive.Wrap(err, drive.InProgress, "retry_after", 1)
	}
	return err
}

// received notes a part, or the tail of one, that the staging has accepted.
func (s *receiver) received(ctx context.Context, l *live, w *partWriter, part blob.Part, tail bool) {
	row, resumed := l.accept(w, part, tail)
	s.touch(l, row)
	if resumed {
		s.sched.arm(ctx, row) // its idle time is no longer a doubled one
	}
	s.follow.start(l)
}

// notStaged judges an error of Write or Drop. begun: some of the body was read, so that there is no
// other attempt with it.
func (s *receiver) notStaged(ctx context.Context, l *live, row Row, err error, begun bool) (outcome, error) {
	switch {
	case drive.IsKind(err, drive.WrongState): // closed by a change of state that did not come about, or that we did not see
		l.refuse(row.Gen)
		l.forget()
		return repeat(begun)
	case drive.IsKind(err, drive.NotFound): // removed from outside, or by a cancel that came between
		return s.vanished(ctx, l, row, err, begun)
	case drive.IsKind(err, drive.Unavailable): // it may have been accepted
		l.forget()
	}
	return settled, err
}

// compare reads a body whose part is here already.
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

const compareBufferSize = 64 << 10 // bytes: as fast as larger ones when nothing is written

var compareBuffers = sync.Pool{New: func() any { b := make([]byte, compareBufferSize); return &b }}

// admit registers w as the writer of its part once the upload can take it: loaded, active,
// verified, with enough reserved. An earlier writer of the same part is ended first.
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

// step is what must happen before a part can be admitted.
type step func(ctx context.Context, s *receiver, l *live, who drive.Who) error

// tryPart registers w, or says what must happen first. Whether the part is here already the staging
// says.
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
	size := max(0, p.Size-l.parts[p.N].Size) // one that is here is only compared, or has been dropped elsewhere
	if need := l.received + l.incoming + size; row.Size == blob.UnknownSize && !p.drop && need > l.limit {
		return Row{}, func(ctx context.Context, s *receiver, l *live, _ drive.Who) error { return s.makeRoom(ctx, l, need) }, nil
	}
	if before := l.beginPart(p.N, size, w); before != nil {
		return Row{}, func(ctx context.Context, _ *receiver, _ *live, _ drive.Who) error { return before.end(ctx) }, nil
	}
	return row, nil, nil
}

func (w *partWriter) end(ctx context.Context) error {
	w.cancel()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return drive.Wrap(context.Cause(ctx), drive.InProgress, "retry_after", 1)
	}
}

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

// accept adds a part or a tail to what the live knows; resumed means that it is the first one since
// the upload was resumed.
func (l *live) accept(w *partWriter, part blob.Part, tail bool) (row Row, resumed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.accepts++
	if l.parts == nil { // forgotten meanwhile: the journal has it
		return Row{ID: l.id}, false
	}
	l.incoming, w.size = l.incoming-w.size, 0 // from here on it counts as received, and not twice
	if have, ok := l.parts[part.N]; ok && l.of.shared && !have.Unread {
		l.limit -= have.Size // it was dropped elsewhere, where its room may be used
	}
	l.enterLocked(part, tail)
	resumed = l.row.Resumes > 0
	l.row.Resumes = 0
	l.promiseLocked()
	return l.row, resumed
}

// enterLocked adds a part or a tail, in the place of what there was.
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

// drop takes a part back.
func (s *receiver) drop(ctx context.Context, who drive.Who, id drive.UploadID, n int) error {
	l := s.table.enter(id)
	defer s.table.leave(l)
	return attempts(func() (outcome, error) { return s.deletePart(ctx, who, l, n) })
}

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
		l.forget() // it may be out of the journal all the same: the same bytes sent again must not be answered from memory
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

// granting reserves room for bytes before it hands them out.
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

// take counts n more bytes that w brings, and enlarges the reservation when they do not fit.
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
	if err == nil && out == again { // the bytes that were read cannot be read again
		err = comeAgain()
	}
	return err
}

// activity passes bytes on and touches the upload's timer, at most once per interval, however
// slowly they come.
type activity struct {
	body  io.Reader
	touch func()
	every time.Duration
	now   func() drive.Time
	last  drive.Time
	begun bool // something was read
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

func (s *receiver) touch(l *live, row Row) {
	l.touch(s.now())
	s.sched.touch(row.ID)
}
