package uploadtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Extend appends body to a tail and journals it, as PrepareExtend and Commit. Tail bytes are kept
// in the store and outlive the journal.
func (s *Shared) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	w, err := s.PrepareExtend(ctx, ref, e, body)
	if err != nil {
		return blob.Part{}, err
	}
	return w.Part(), w.Commit(ctx)
}

// PrepareExtend reads body while it holds a lease on the part, and returns the piece, which the
// caller must commit or discard. Errors: those of beginExtend and body, and of a piece that does
// not fit the part; the lease is released then.
func (s *Shared) PrepareExtend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.PendingExtend, error) {
	if err := errors.Join(ctx.Err(), e.CheckRef(ref)); err != nil {
		return nil, err
	}
	mine, err := s.beginExtend(ref, e)
	if err != nil {
		return nil, err
	}
	w := &sharedPiece{s: s, ref: ref, e: e, mine: mine}
	if w.data, err = io.ReadAll(&renewingReader{Reader: body, s: s, l: mine}); err == nil {
		w.part, err = body.Finish()
	}
	if err == nil {
		err = e.CheckResult(w.part, drive.ByteSize(len(w.data)))
	}
	if err != nil {
		w.Discard(ctx)
		return nil, err
	}
	return w, nil
}

// sharedPiece is a piece that was read and not journaled. It holds the lease mine on its part until
// Commit or Discard.
type sharedPiece struct {
	s    *Shared
	ref  blob.Ref
	e    blob.Extend
	mine *lease
	part blob.Part
	data []byte
}

// Part returns the part or tail as it is after Commit.
func (w *sharedPiece) Part() blob.Part { return w.part }

// Commit appends the piece to the tail and releases the lease. It returns NotFound if the upload
// was removed, and WrongState if the lease was lost or the upload closed, sealed or fenced.
func (w *sharedPiece) Commit(context.Context) error {
	return w.s.endExtend(w.ref, w.e, w.mine, w.part, w.data, true)
}

// Discard releases the lease and leaves the tail unchanged.
func (w *sharedPiece) Discard(context.Context) {
	_ = w.s.endExtend(w.ref, w.e, w.mine, w.part, nil, false)
}

// beginExtend leases the part for one writer, replacing another's lease; the caller must pass the
// lease to endExtend. Errors: those of mayWrite, and that of Extend.OffsetError if the part is
// complete or its tail does not end at e.At.
func (s *Shared) beginExtend(ref blob.Ref, e blob.Extend) (*lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mayWrite(ref, e.N, e.Gen); err != nil {
		return nil, err
	}
	j := s.journals[ref.ID]
	if have, ok := j.parts[e.N]; ok {
		return nil, e.OffsetError(have.Size)
	}
	if have := j.tails[e.N].Size; have != e.At {
		return nil, e.OffsetError(have)
	}
	l := s.newLease()
	j.leases[e.N] = l
	return l, nil
}

// endExtend releases the lease if mine still is the part's and, if whole, appends data to the tail,
// which becomes a part at e.Whole. If whole it returns NotFound if the upload was removed, and
// WrongState if the lease was lost or the upload closed, sealed or fenced.
func (s *Shared) endExtend(ref blob.Ref, e blob.Extend, mine *lease, part blob.Part, data []byte, whole bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	j, up := s.journals[ref.ID], s.uploads[ref.ID]
	held := j != nil && j.leases[e.N] == mine
	if held {
		delete(j.leases, e.N)
	}
	switch {
	case !whole:
		return nil
	case up == nil:
		return drive.Fail(drive.NotFound)
	case !held, j.closed, j.sealed, e.Gen <= j.fence:
		return drive.Fail(drive.WrongState)
	}
	all := slices.Concat(up.tails[e.N], data)
	switch {
	case part.Size == e.Whole:
		up.parts[e.N], j.parts[e.N] = all, part
		delete(up.tails, e.N)
		delete(j.tails, e.N)
	case len(data) == 0:
		return nil
	default:
		up.tails[e.N], j.tails[e.N] = all, part
	}
	j.last = s.now()
	return nil
}

// OpenTail opens the tail of part n. It returns NotFound if there is none or the upload is sealed.
func (s *Shared) OpenTail(_ context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journalLocked(ref)
	if j == nil || s.uploads[ref.ID] == nil || j.tails[n].Size == 0 {
		return nil, drive.Fail(drive.NotFound)
	}
	return io.NopCloser(bytes.NewReader(s.uploads[ref.ID].tails[n])), nil
}
