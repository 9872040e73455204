package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Extend appends body to the tail of a part and journals the result. The bytes are written to their
// final place after the existing tail, whose record stays valid until the record of the longer tail
// follows.
//
//	dies after ...     is left                                        and then
//	some bytes         the shorter tail, and bytes behind it          freed by the next load, or overwritten
//	the record         the longer tail, unacknowledged                the client asks for the offset
func (s *Staging) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	w, err := s.withhold(ctx, ref, e, body)
	if err != nil {
		return blob.Part{}, err
	}
	return w.part, w.Commit(ctx)
}

// PrepareExtend writes a piece after the tail without journaling it (blob.Staging). The caller must
// call Commit or Discard of the result exactly once; until then the part stays claimed and other
// writers of it are refused.
func (s *Staging) PrepareExtend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.PendingExtend, error) {
	w, err := s.withhold(ctx, ref, e, body)
	if err != nil {
		return nil, err
	}
	return w, nil
}

// withhold claims the tail of part e.N and writes the body after it without journaling it. On an
// error it has released the claim; else the caller must commit or discard the result, which
// releases it.
func (s *Staging) withhold(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (*withheld, error) {
	if err := e.CheckRef(ref); err != nil {
		return nil, err
	}
	u, err := s.acquire(ref)
	if err != nil {
		return nil, err
	}
	w := &withheld{s: s, u: u, e: e}
	if w.failedSyncs, err = u.claimTail(e); err != nil {
		s.release(u)
		return nil, err
	}
	w.part, err = u.writeBody(ctx, e.Write(), e.At, body)
	if err == nil {
		err = e.CheckResult(w.part, w.part.Size-e.At)
	}
	if err != nil {
		w.Discard(ctx)
		return nil, fmt.Errorf("extend part %d: %w", e.N, err)
	}
	return w, nil
}

// withheld is a piece whose bytes are behind a tail but not journaled (blob.PendingExtend). Commit
// or Discard must be called exactly once.
type withheld struct {
	s           *Staging
	u           *upload
	e           blob.Extend
	part        blob.Part // the tail or part that Commit journals
	failedSyncs int       // number of failed syncs before it began
}

// Part returns the part that results from the piece.
func (w *withheld) Part() blob.Part { return w.part }

// Commit journals the longer tail or the complete part and releases the claim. On an error, also if
// a sync has failed since the piece was written, the piece is discarded. It must be called at most
// once, and not after Discard.
func (w *withheld) Commit(ctx context.Context) error {
	if w.part.Size == w.e.At && w.part.Size != w.e.Whole { // the body was empty
		w.finish()
		return nil
	}
	err := w.u.checkNoFailedSync(w.failedSyncs)
	if err == nil {
		err = w.u.accept(w.part, kindOf(w.part, w.e), w.e.Gen)
	}
	if err != nil {
		w.Discard(ctx)
		return fmt.Errorf("extend part %d: %w", w.e.N, err)
	}
	w.finish()
	return nil
}

// Discard frees the bytes of the piece and ends the reservation of its part; the tail stays as it
// was. It must not be called after Commit.
func (w *withheld) Discard(context.Context) {
	w.u.freeFailedTail(w.e)
	w.finish()
}

// finish ends the reservation of the part and releases the upload, so that its object may leave the
// cache. It must be called once.
func (w *withheld) finish() {
	w.u.release(w.e.N)
	w.s.release(w.u)
}

// checkNoFailedSync returns Unavailable if a sync has failed since there were that many failures.
// The kernel reports a failure once, so bytes written before it and journaled later would never
// become suspect.
func (u *upload) checkNoFailedSync(doubts int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.failedSyncs != doubts {
		return drive.Wrap(errors.New("a sync has failed while it came"), drive.Unavailable)
	}
	return nil
}

// kindOf returns the kind of record for the result of an Extend: a part if it is complete, else a
// tail.
func kindOf(p blob.Part, e blob.Extend) kind {
	if p.Size == e.Whole {
		return kindPart
	}
	return kindTail
}

// claimTail reserves a part for an Extend, and returns the number of failed syncs so far. It
// returns OffsetMismatch unless the tail has e.At bytes. The caller must call release.
func (u *upload) claimTail(e blob.Extend) (doubts int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return 0, err
	}
	if err := u.checkWritableLocked(e.Gen, e.N); err != nil {
		return 0, err
	}
	if have, ok := u.journal.parts[e.N]; ok {
		return 0, e.OffsetError(have.Size)
	}
	if have := u.journal.tails[e.N].Size; have != e.At {
		return 0, e.OffsetError(have)
	}
	u.writing[e.N] = e.Gen
	u.active.Store(true)
	return u.failedSyncs, nil
}

// freeFailedTail frees the bytes that a failed Extend wrote after the tail, unless the journal may
// contain them despite the failure.
func (u *upload) freeFailedTail(e blob.Extend) {
	u.mu.Lock()
	keep := u.removed || u.journal == nil
	if !keep {
		have, ok := u.journal.entry(e.N)
		keep = ok && have.Size != e.At || e.At == e.Whole
	}
	u.mu.Unlock()
	if keep {
		return
	}
	if err := u.free(e.N, e.At); err != nil {
		u.d.log.Warn("bytes of a failed extension not freed; they are freed when the upload is loaded again", "upload", u.ref.ID, "part", e.N, "error", err)
	}
}

// OpenTail returns a reader of the bytes of part n that were accepted when it was called, which the
// caller must close (blob.Staging). It fails with NotFound if the part has no tail.
func (s *Staging) OpenTail(_ context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	u, err := s.acquire(ref)
	if err != nil {
		return nil, err
	}
	defer s.release(u)
	u.mu.Lock()
	err = u.loadLocked()
	var size drive.ByteSize
	if err == nil {
		e, ok := u.journal.tails[n]
		if size = e.Size; !ok {
			err = drive.Fail(drive.NotFound)
		}
	}
	path := u.bytesPath()
	u.mu.Unlock()
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open the tail of part %d: %w", n, classify(err))
	}
	return &tailReader{io.NewSectionReader(f, int64(n)*int64(u.ref.PartSize), int64(size)), f}, nil
}

// tailReader reads a tail. If journaled bytes are missing it returns io.ErrUnexpectedEOF.
type tailReader struct {
	section *io.SectionReader // the bytes of the tail
	file    *os.File
}

// Read reads the next bytes of the tail. It returns io.ErrUnexpectedEOF if the file has become
// shorter than the tail.
func (r *tailReader) Read(p []byte) (int, error) {
	n, err := r.section.Read(p)
	if at, _ := r.section.Seek(0, io.SeekCurrent); err == io.EOF && at < r.section.Size() {
		err = io.ErrUnexpectedEOF
	}
	return n, classify(err)
}

// Close closes the file.
func (r *tailReader) Close() error { return r.file.Close() }
