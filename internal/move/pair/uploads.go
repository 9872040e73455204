package pair

import (
	"context"
	"errors"
	"io"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Uploads is the staging of a pair.
type Uploads struct{ p *Pair }

var (
	_ Staging     = (*Uploads)(nil)
	_ blob.Powers = (*Uploads)(nil)
)

// Caps implements blob.Powers. MinPart is what a new upload must keep to, and moves with who leads.
func (u *Uploads) Caps() blob.Caps {
	s := u.p.now.Load()
	return blob.Caps{Shared: u.p.shared, ReadableParts: s.readable, MinPart: blob.CapsOf(s.leader().Staging).MinPart}
}

// side finds the side where an upload began. An answer other than NotFound decides: where a side cannot be asked the other one must not
// be taken for it, unless it has it.
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
	if len(order) == 2 && blob.CapsOf(order[0].Staging).MinPart > blob.CapsOf(order[1].Staging).MinPart {
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

// at runs act on the staging that has the upload.
func at[T any](ctx context.Context, u *Uploads, ref blob.Ref, act func(Staging) (T, error)) (T, error) {
	side, err := u.side(ctx, ref)
	if err != nil {
		var none T
		return none, err
	}
	return act(side.Staging)
}

// do is at for what returns nothing.
func (u *Uploads) do(ctx context.Context, ref blob.Ref, act func(Staging) error) error {
	_, err := at(ctx, u, ref, func(s Staging) (struct{}, error) { return struct{}{}, act(s) })
	return err
}

// Create implements blob.Staging. One that exists stays where it is. A new one that the side that leads now cannot take, because it was
// thought of when the other one led, begins there.
func (u *Uploads) Create(ctx context.Context, ref blob.Ref) error {
	s := u.p.now.Load()
	if s.follower() == nil {
		return s.leader().Staging.Create(ctx, ref)
	}
	side, err := u.side(ctx, ref)
	if drive.IsKind(err, drive.NotFound) {
		side, err = s.leader(), nil
		if ref.PartSize < blob.CapsOf(side.Staging).MinPart {
			side = s.follower()
		}
	}
	if err == nil {
		err = side.Staging.Create(ctx, ref)
	}
	if err == nil {
		u.p.where.note(ref.ID, side)
	}
	return err
}

// Write implements blob.Staging.
func (u *Uploads) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	return at(ctx, u, ref, func(s Staging) (blob.Part, error) { return s.Write(ctx, ref, w, body) })
}

// Drop implements blob.Staging.
func (u *Uploads) Drop(ctx context.Context, ref blob.Ref, gen int64, n int) error {
	return u.do(ctx, ref, func(s Staging) error { return s.Drop(ctx, ref, gen, n) })
}

// Load implements blob.Staging.
func (u *Uploads) Load(ctx context.Context, ref blob.Ref) (blob.Staged, error) {
	return at(ctx, u, ref, func(s Staging) (blob.Staged, error) { return s.Load(ctx, ref) })
}

// Fence implements blob.Staging. That ctx has ended must not keep the fence from standing.
func (u *Uploads) Fence(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	side, err := u.side(context.WithoutCancel(ctx), ref)
	if err != nil {
		return blob.Staged{}, err
	}
	return side.Staging.Fence(ctx, ref, gen)
}

// Remove implements blob.Staging. Where nobody knows where it is it is removed at both.
func (u *Uploads) Remove(ctx context.Context, ref blob.Ref) error {
	s := u.p.now.Load()
	sides := s.order()
	if known := u.p.where.find(ref.ID); known != nil {
		sides = []*Side{known}
	}
	var errs []error
	for _, side := range sides {
		errs = append(errs, side.Staging.Remove(ctx, ref))
	}
	err := errors.Join(errs...)
	if err == nil {
		u.p.where.forget(ref.ID)
	}
	return err
}

// Seal implements blob.Sealer.
func (u *Uploads) Seal(ctx context.Context, ref blob.Ref, size drive.ByteSize) error {
	side, err := u.sealedSide(ctx, ref)
	if err != nil {
		return err
	}
	return side.Staging.Seal(ctx, ref, size)
}

// Unseal implements blob.Sealer.
func (u *Uploads) Unseal(ctx context.Context, ref blob.Ref) error {
	return u.do(ctx, ref, func(s Staging) error { return s.Unseal(ctx, ref) })
}

// OpenStaged implements blob.Sealer.
func (u *Uploads) OpenStaged(ctx context.Context, ref blob.Ref) (blob.Object, error) {
	side, err := u.sealedSide(ctx, ref)
	if err != nil {
		return nil, err
	}
	return side.Staging.OpenStaged(ctx, ref)
}

// Verify implements blob.Sealer.
func (u *Uploads) Verify(ctx context.Context, ref blob.Ref, gen int64) (blob.Staged, error) {
	return at(ctx, u, ref, func(s Staging) (blob.Staged, error) { return s.Verify(ctx, ref, gen) })
}

// ListStaged implements blob.Sealer. What is staged for a copy of content is no upload.
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

// QuarantineStaged implements blob.Sealer.
func (u *Uploads) QuarantineStaged(ctx context.Context, stray blob.Stray) error {
	var errs []error
	for _, side := range u.p.now.Load().order() {
		errs = append(errs, side.Staging.QuarantineStaged(ctx, stray))
	}
	return errors.Join(errs...)
}

// Extend implements blob.Tailer.
func (u *Uploads) Extend(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Part, error) {
	return at(ctx, u, ref, func(s Staging) (blob.Part, error) { return s.Extend(ctx, ref, e, body) })
}

// Withhold implements blob.Tailer.
func (u *Uploads) Withhold(ctx context.Context, ref blob.Ref, e blob.Extend, body blob.Body) (blob.Withheld, error) {
	return at(ctx, u, ref, func(s Staging) (blob.Withheld, error) { return s.Withhold(ctx, ref, e, body) })
}

// OpenTail implements blob.Tailer.
func (u *Uploads) OpenTail(ctx context.Context, ref blob.Ref, n int) (io.ReadCloser, error) {
	return at(ctx, u, ref, func(s Staging) (io.ReadCloser, error) { return s.OpenTail(ctx, ref, n) })
}
