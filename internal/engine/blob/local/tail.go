package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Extend implements blob.Staging. The bytes go to their final place behind those that are there,
// which stay as they are: the record of the shorter tail is true until the longer one's follows it.
//
//	dies after ...     is left                                        and then
//	some bytes         the shorter tail, and bytes behind it          freed by the next load, or written over
//	the record         the longer tail, unacknowledged                what the next offset says
func (s *Staging) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	w, err := s.withhold(ctx, ref, e, body)
	if err != nil {
		return blob.Part{}, err
	}
	return w.part, w.Enter(ctx)
}

// Withhold implements blob.Staging.
func (s *Staging) Withhold(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Withheld, error) {
	w, err := s.withhold(ctx, ref, e, body)
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (s *Staging) withhold(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (*withheld, error) {
	if err := e.Admits(ref); err != nil {
		return nil, err
	}
	u, err := s.use(ref)
	if err != nil {
		return nil, err
	}
	w := &withheld{s: s, u: u, e: e}
	if w.doubts, err = u.claimTail(e); err != nil {
		s.done(u)
		return nil, err
	}
	w.part, err = u.receive(ctx, e.Write(), e.At, body)
	if err == nil {
		err = e.Check(w.part, w.part.Size-e.At)
	}
	if err != nil {
		w.Discard(ctx)
		return nil, fmt.Errorf("extend part %d: %w", e.N, err)
	}
	return w, nil
}

// withheld implements blob.Withheld: bytes behind a tail whose record says nothing of them.
type withheld struct {
	s      *Staging
	u      *upload
	e      blob.Extend
	part   blob.Part
	doubts int // failed syncs before it came
}

func (w *withheld) Part() blob.Part { return w.part }

// Enter implements blob.Withheld.
func (w *withheld) Enter(ctx context.Context) error {
	if w.part.Size == w.e.At && w.part.Size != w.e.Whole { // nothing came
		w.end()
		return nil
	}
	err := w.u.undoubted(w.doubts)
	if err == nil {
		err = w.u.accept(w.part, kindOf(w.part, w.e), w.e.Gen)
	}
	if err != nil {
		w.Discard(ctx)
		return fmt.Errorf("extend part %d: %w", w.e.N, err)
	}
	w.end()
	return nil
}

// Discard implements blob.Withheld.
func (w *withheld) Discard(context.Context) {
	w.u.discardTail(w.e)
	w.end()
}

func (w *withheld) end() {
	w.u.release(w.e.N)
	w.s.done(w.u)
}

// undoubted fails where a sync has failed since there were that many doubts: the kernel says so
// once, and what came before that and is in no journal yet nobody would suspect later.
func (u *upload) undoubted(doubts int) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.doubts != doubts {
		return drive.Wrap(errors.New("a sync has failed while it came"), drive.Unavailable)
	}
	return nil
}

// kindOf says what the longer tail is entered as.
func kindOf(p blob.Part, e blob.Extend) kind {
	if p.Size == e.Whole {
		return kindPart
	}
	return kindTail
}

// claimTail reserves a part for an Extend of its tail, and says how many syncs had failed by then.
func (u *upload) claimTail(e blob.Extend) (doubts int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.loadLocked(); err != nil {
		return 0, err
	}
	if err := u.refuseLocked(e.Gen, e.N); err != nil {
		return 0, err
	}
	if have, ok := u.journal.parts[e.N]; ok {
		return 0, e.Moved(have.Size)
	}
	if have := u.journal.tails[e.N].Size; have != e.At {
		return 0, e.Moved(have)
	}
	u.writing[e.N] = e.Gen
	u.active.Store(true)
	return u.doubts, nil
}

// discardTail frees what a failed Extend has left behind the tail, unless the journal may name it
// in spite of the failure.
func (u *upload) discardTail(e blob.Extend) {
	u.mu.Lock()
	keep := u.gone || u.journal == nil
	if !keep {
		have, ok := u.journal.entry(e.N)
		keep = ok && have.Size != e.At || e.At == e.Whole
	}
	u.mu.Unlock()
	if keep {
		return
	}
	if err := u.free(e.N, e.At); err != nil {
		u.d.log.Warn("torn end of a part not freed", "upload", u.ref.ID, "part", e.N, "error", err)
	}
}

// OpenTail implements blob.Staging.
func (s *Staging) OpenTail(_ context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	u, err := s.use(ref)
	if err != nil {
		return nil, err
	}
	defer s.done(u)
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

// tailReader reads a tail. Bytes that are named and not there are damage, not its end.
type tailReader struct {
	section *io.SectionReader
	file    *os.File
}

func (r *tailReader) Read(p []byte) (int, error) {
	n, err := r.section.Read(p)
	if at, _ := r.section.Seek(0, io.SeekCurrent); err == io.EOF && at < r.section.Size() {
		err = io.ErrUnexpectedEOF
	}
	return n, classify(err)
}

func (r *tailReader) Close() error { return r.file.Close() }
