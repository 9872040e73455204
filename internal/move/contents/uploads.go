package contents

import (
	"context"
	"errors"
	"io"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Uploads is the staging of a pair.
type Uploads struct{ p *Pair }

var _ blob.Staging = (*Uploads)(nil)

// Caps implements blob.Staging. MinPart is what a new upload must keep to, and moves with who
// leads.
func (u *Uploads) Caps() blob.Caps {
	s := u.p.now.Load()
	return blob.Caps{Shared: u.p.shared, ReadableParts: s.readable, MinPart: s.leader().Staging.Caps().MinPart}
}

// side finds the side where an upload began. An answer other than NotFound decides: where a side
// cannot be asked the other one must not be taken for it, unless it has it.
func (u *Uploads) side(ctx context.Context, ref blob.Ref) (*Side, error) {
	s := u.p.now.Load()
	if s.follower() == nil {
		return s.leader(), nil
	}
	if at := u.p.where.find(ref.ID); at != nil {
		return at, nil
	}
	var refusal error = drive.Fail(drive.NotFound)
	for _, at := range s.askingOrder() {
		_, err := at.Staging.Load(ctx, ref)
		if err == nil {
			u.p.where.note(ref.ID, at)
			return at, nil
		}
		if !drive.IsKind(err, drive.NotFound) {
			refusal = err
		}
	}
	return nil, refusal
}

// askingOrder begins with the side that is quick to say no: a directory.
func (s *state) askingOrder() []*Side {
	order := s.order()
	if len(order) == 2 && order[0].Staging.Caps().MinPart > order[1].Staging.Caps().MinPart {
		order[0], order[1] = order[1], order[0]
	}
	return order
}

// sealedSide is side for what answers for sealed content too, also when nothing is staged any more.
func (u *Uploads) sealedSide(ctx context.Context, ref blob.Ref) (*Side, error) {
	side, err := u.side(ctx, ref)
	if !drive.IsKind(err, drive.NotFound) {
		return side, err
	}
	return first(u.p.now.Load().order(), func(at *Side) (*Side, error) {
		_, err := at.Store.Stat(ctx, ref.ID.String())
		return at, err
	})
}

// staging is the one that has the upload. Where there is one side only that costs a load of a
// pointer.
func (u *Uploads) staging(ctx context.Context, ref blob.Ref) (blob.Staging, error) {
	side, err := u.side(ctx, ref)
	if err != nil {
		return nil, err
	}
	return side.Staging, nil
}

// Create implements blob.Staging. One that exists stays where it is.
func (u *Uploads) Create(ctx context.Context, ref blob.Ref) error {
	s := u.p.now.Load()
	if s.follower() == nil {
		return s.leader().Staging.Create(ctx, ref)
	}
	side, err := u.place(ctx, s, ref)
	if err == nil {
		err = side.Staging.Create(ctx, ref)
	}
	if err == nil {
		u.p.where.note(ref.ID, side)
	}
	return err
}

// askTime is how long a side is asked whether it has an upload that is about to begin.
const askTime = 2 * time.Second

// place is where an upload is, or is to begin: at the side that leads, unless that cannot take it,
// because the upload was planned when the other one led. If the follower cannot be asked, it is
// enough that the leader does not have the upload: each new upload has an id of its own and is
// created once.
func (u *Uploads) place(ctx context.Context, s *state, ref blob.Ref) (*Side, error) {
	asking, stop := context.WithTimeout(ctx, askTime)
	defer stop()
	side, err := u.side(asking, ref)
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

// Write implements blob.Staging.
func (u *Uploads) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Part{}, err
	}
	return s.Write(ctx, ref, w, body)
}

// Drop implements blob.Staging.
func (u *Uploads) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return err
	}
	return s.Drop(ctx, ref, gen, n)
}

// Load implements blob.Staging.
func (u *Uploads) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return s.Load(ctx, ref)
}

// Fence implements blob.Staging. That ctx has ended must not keep the fence from standing.
func (u *Uploads) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	side, err := u.side(context.WithoutCancel(ctx), ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return side.Staging.Fence(ctx, ref, gen)
}

// Remove implements blob.Staging. Where nobody knows where it is it is removed at both. A follower
// that does not answer is not waited for if the upload is at the side that leads: it is at one side
// only.
func (u *Uploads) Remove(ctx context.Context, ref blob.Ref) error {
	s := u.p.now.Load()
	at, away := u.p.where.find(ref.ID), error(nil)
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
		u.p.where.forget(ref.ID)
	}
	return err
}

// Seal implements blob.Staging.
func (u *Uploads) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	side, err := u.sealedSide(ctx, ref)
	if err != nil {
		return err
	}
	return side.Staging.Seal(ctx, ref, size)
}

// Unseal implements blob.Staging.
func (u *Uploads) Unseal(ctx context.Context, ref blob.Ref) error {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return err
	}
	return s.Unseal(ctx, ref)
}

// Adopt implements blob.Staging. Bytes change hands where they lie, so both uploads are at one
// side. One that is nowhere was adopted by an earlier call, or is lost.
func (u *Uploads) Adopt(ctx context.Context, ref, from blob.Ref) (bool, error) {
	to, err := u.side(ctx, ref)
	if err != nil {
		return false, err
	}
	at, err := u.side(ctx, from)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return false, nil
	case err != nil || at != to:
		return false, err
	}
	return to.Staging.Adopt(ctx, ref, from)
}

// OpenStaged implements blob.Staging.
func (u *Uploads) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	side, err := u.sealedSide(ctx, ref)
	if err != nil {
		return nil, err
	}
	return side.Staging.OpenStaged(ctx, ref)
}

// Verify implements blob.Staging.
func (u *Uploads) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return s.Verify(ctx, ref, gen)
}

// ListStaged implements blob.Staging. What is staged for a copy of content is not an upload.
func (u *Uploads) ListStaged(ctx context.Context, fn func(blob.Stray) error) error {
	for _, side := range u.p.now.Load().order() {
		err := side.Staging.ListStaged(ctx, func(s blob.Stray) error {
			if _, copied := u.p.moving.Load(s.Name); copied {
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

// QuarantineStaged implements blob.Staging.
func (u *Uploads) QuarantineStaged(ctx context.Context, stray blob.Stray) error {
	var errs []error
	for _, side := range u.p.now.Load().order() {
		errs = append(errs, side.Staging.QuarantineStaged(ctx, stray))
	}
	return errors.Join(errs...)
}

// Extend implements blob.Staging.
func (u *Uploads) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return blob.Part{}, err
	}
	return s.Extend(ctx, ref, e, body)
}

// Withhold implements blob.Staging.
func (u *Uploads) Withhold(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Withheld, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.Withhold(ctx, ref, e, body)
}

// OpenTail implements blob.Staging.
func (u *Uploads) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	s, err := u.staging(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.OpenTail(ctx, ref, n)
}
