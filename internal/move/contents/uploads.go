package contents

import (
	"context"
	"errors"
	"io"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Uploads is the staging of a pair.
type Uploads struct{ p *Pair }

var _ blob.Staging = (*Uploads)(nil)

// Caps returns the kind of staging that the pair has had from its start; MinPart is that of the
// leader.
func (u *Uploads) Caps() blob.Caps {
	s := u.p.current.Load()
	return blob.Caps{Shared: u.p.shared, ReadableParts: s.readable, MinPart: s.leader().Staging.Caps().MinPart}
}

// findSide returns the side where an upload began, or NotFound. If a side cannot be asked and the
// other does not have the upload, it returns that side's error.
func (u *Uploads) findSide(ctx context.Context, ref blob.Ref) (*Side, error) {
	s := u.p.current.Load()
	if s.follower() == nil {
		return s.leader(), nil
	}
	if at := u.p.uploadSides.get(ref.ID); at != nil {
		return at, nil
	}
	var refusal error = drive.Fail(drive.NotFound)
	for _, at := range s.askingOrder() {
		_, err := at.Staging.Load(ctx, ref)
		if err == nil {
			u.p.uploadSides.put(ref.ID, at)
			return at, nil
		}
		if !drive.IsKind(err, drive.NotFound) {
			refusal = err
		}
	}
	return nil, refusal
}

// askingOrder returns the sides, the one with the cheaper lookup first: a directory.
func (s *pairState) askingOrder() []*Side {
	order := s.order()
	if len(order) == 2 && order[0].Staging.Caps().MinPart > order[1].Staging.Caps().MinPart {
		order[0], order[1] = order[1], order[0]
	}
	return order
}

// sealedSide returns the side that has the upload's staging, else the side that has its sealed
// content. It returns NotFound if both sides lack both, and the error of a side that cannot be
// asked if the other has neither.
func (u *Uploads) sealedSide(ctx context.Context, ref blob.Ref) (*Side, error) {
	side, err := u.findSide(ctx, ref)
	if !drive.IsKind(err, drive.NotFound) {
		return side, err
	}
	return firstAnswer(u.p.current.Load().order(), func(at *Side) (*Side, error) {
		_, err := at.Store.Stat(ctx, ref.ID.String())
		return at, err
	})
}

// staging returns the staging that has the upload, or the error of findSide, such as NotFound. With
// one side this costs one atomic load.
func (u *Uploads) staging(ctx context.Context, ref blob.Ref) (blob.Staging, error) {
	side, err := u.findSide(ctx, ref)
	if err != nil {
		return nil, err
	}
	return side.Staging, nil
}

// Create creates a staging at the side that has the upload already, else at the leader, or at the
// follower if the part size is too small for the leader. It caches the side. If the follower does
// not answer, the leader's answer suffices.
func (u *Uploads) Create(ctx context.Context, ref blob.Ref) error {
	s := u.p.current.Load()
	if s.follower() == nil {
		return s.leader().Staging.Create(ctx, ref)
	}
	side, err := u.sideFor(ctx, s, ref)
	if err == nil {
		err = side.Staging.Create(ctx, ref)
	}
	if err == nil {
		u.p.uploadSides.put(ref.ID, side)
	}
	return err
}

// askTimeout is the timeout for asking whether a side has an upload that is about to begin.
const askTimeout = 2 * time.Second

// sideFor returns the side of an existing upload, or the side for a new one: the leader, unless the
// part size is too small for it because the upload was planned under the other leader. If the
// follower cannot be asked, the leader's answer suffices: each new upload has a unique id and is
// created once.
func (u *Uploads) sideFor(ctx context.Context, s *pairState, ref blob.Ref) (*Side, error) {
	asking, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	side, err := u.findSide(asking, ref)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		side = s.leader()
		_, err = side.Staging.Load(ctx, ref)
	}
	if !drive.IsKind(err, drive.NotFound) {
		return side, err
	}
	if ref.PartSize < s.leader().Staging.Caps().MinPart {
		return s.follower(), nil
	}
	return s.leader(), nil
}

// Write stores a part at the side of the upload. NotFound if neither side has it; other errors: as
// blob.Staging.
func (u *Uploads) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Part{}, err
	}
	return s.Write(ctx, ref, w, body)
}

// Drop deletes a part at the side of the upload. NotFound if neither side has it; other errors: as
// blob.Staging.
func (u *Uploads) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return err
	}
	return s.Drop(ctx, ref, gen, n)
}

// Load reads the journal at the side of the upload. NotFound if neither side has it.
func (u *Uploads) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return s.Load(ctx, ref)
}

// Fence excludes writers of gen and below at the side of the upload. It looks for the side even if
// ctx has ended, because the fence must be set. NotFound if neither side has the upload.
func (u *Uploads) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	side, err := u.findSide(context.WithoutCancel(ctx), ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return side.Staging.Fence(ctx, ref, gen)
}

// Remove deletes an upload at its side. If the side is unknown, it removes the upload at both. An
// error of the follower is ignored if the leader has the upload, because an upload is at one side
// only.
func (u *Uploads) Remove(ctx context.Context, ref blob.Ref) error {
	s := u.p.current.Load()
	at, away := u.p.uploadSides.get(ref.ID), error(nil)
	if at == nil {
		at = s.leader()
		if s.follower() != nil {
			away = s.follower().Staging.Remove(ctx, ref)
		}
	}
	if away != nil {
		if _, err := at.Staging.Load(ctx, ref); err == nil {
			away = nil
		}
	}
	err := errors.Join(at.Staging.Remove(ctx, ref), away)
	if err == nil {
		u.p.uploadSides.remove(ref.ID)
	}
	return err
}

// Seal turns the parts into content at the side of the upload, or where it is sealed already.
// Errors: as blob.Staging.
func (u *Uploads) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	side, err := u.sealedSide(ctx, ref)
	if err != nil {
		return err
	}
	return side.Staging.Seal(ctx, ref, size)
}

// Unseal turns content into parts again at the side of the upload. NotFound if neither side has it.
func (u *Uploads) Unseal(ctx context.Context, ref blob.Ref) error {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return err
	}
	return s.Unseal(ctx, ref)
}

// Adopt takes over the parts of from at their side. It returns false, and the caller copies, if the
// uploads are at different sides, or if from is gone: adopted by an earlier call, or lost. NotFound
// if ref is at neither side.
func (u *Uploads) Adopt(ctx context.Context, ref, from blob.Ref) (bool, error) {
	to, err := u.findSide(ctx, ref)
	if err != nil {
		return false, err
	}
	at, err := u.findSide(ctx, from)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return false, nil
	case err != nil || at != to:
		return false, err
	}
	return to.Staging.Adopt(ctx, ref, from)
}

// OpenStaged opens the sealed content, which the caller must close, at the side of the upload.
func (u *Uploads) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	side, err := u.sealedSide(ctx, ref)
	if err != nil {
		return nil, err
	}
	return side.Staging.OpenStaged(ctx, ref)
}

// Verify checks the parts at the side of the upload. NotFound if neither side has it; other errors:
// as blob.Staging.
func (u *Uploads) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return s.Verify(ctx, ref, gen)
}

// ListStaged calls fn for each staging at the leader and then at the follower, and stops at the
// first error. Staged copies of contents, while they run in this process, are skipped.
func (u *Uploads) ListStaged(ctx context.Context, fn func(blob.Entry) error) error {
	for _, side := range u.p.current.Load().order() {
		err := side.Staging.ListStaged(ctx, func(s blob.Entry) error {
			if _, copied := u.p.copying.Load(s.Name); copied {
				return nil
			}
			return fn(s)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// QuarantineStaged moves a stray staging into the quarantine at both sides, and returns their
// errors joined.
func (u *Uploads) QuarantineStaged(ctx context.Context, stray blob.Entry) error {
	var errs []error
	for _, side := range u.p.current.Load().order() {
		errs = append(errs, side.Staging.QuarantineStaged(ctx, stray))
	}
	return errors.Join(errs...)
}

// Extend appends to a tail at the side of the upload. NotFound if neither side has it; other
// errors: as blob.Staging.
func (u *Uploads) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Part{}, err
	}
	return s.Extend(ctx, ref, e, body)
}

// PrepareExtend stores a piece at the side of the upload without journaling it; the caller must
// commit or discard it. Errors: as Extend.
func (u *Uploads) PrepareExtend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.PendingExtend, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.PrepareExtend(ctx, ref, e, body)
}

// OpenTail opens a tail, which the caller must close, at the side of the upload. NotFound if
// neither side has the upload.
func (u *Uploads) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.OpenTail(ctx, ref, n)
}
