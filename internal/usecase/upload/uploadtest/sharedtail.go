package uploadtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Extend implements blob.Staging. Tail bytes are kept in the store and outlive the journal.
func (s *Shared) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	w, err := s.PrepareExtend(ctx, ref, e, body)
	if err != nil {
		return blob.Part{}, err
	}
	return w.Part(), w.Commit(ctx)
}

// PrepareExtend implements blob.Staging.
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

type sharedPiece struct {
	s    *Shared
	ref  blob.Ref
	e    blob.Extend
	mine *lease
	part blob.Part
	data []byte
}

func (w *sharedPiece) Part() blob.Part { return w.part }

func (w *sharedPiece) Commit(context.Context) error {
	return w.s.endExtend(w.ref, w.e, w.mine, w.part, w.data, true)
}

func (w *sharedPiece) Discard(context.Context) {
	_ = w.s.endExtend(w.ref, w.e, w.mine, w.part, nil, false)
}

// beginExtend checks the request and leases the part.
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

// endExtend releases the lease and, if whole, journals the data.
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

// OpenTail implements blob.Staging.
func (s *Shared) OpenTail(_ context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := s.journalLocked(ref)
	if j == nil || s.uploads[ref.ID] == nil || j.tails[n].Size == 0 {
		return nil, drive.Fail(drive.NotFound)
	}
	return io.NopCloser(bytes.NewReader(s.uploads[ref.ID].tails[n])), nil
}
