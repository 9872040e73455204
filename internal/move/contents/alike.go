package contents

import (
	"context"
	"errors"

	"smartdrive/internal/engine/blob"
)

// alone makes a shared staging look like one of this process alone, which it is used as: content whose seal came to nothing is taken
// away again, for no other instance can have vouched for it.
type alone struct {
	blob.Staging
	store blob.Store
}

// Caps implements blob.Staging.
func (a alone) Caps() blob.Caps {
	caps := a.Staging.Caps()
	caps.Shared = false
	return caps
}

// Write implements blob.Staging: a part that is there is replaced. Who refuses it has read nothing of the body.
func (a alone) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	part, err := a.Staging.Write(ctx, ref, w, body)
	if _, there := errors.AsType[*blob.ThereError](err); !there {
		return part, err
	}
	if err := a.Drop(ctx, ref, w.Gen, w.N); err != nil {
		return blob.Part{}, err
	}
	return a.Staging.Write(ctx, ref, w, body)
}

// Unseal implements blob.Staging. The parts are there before the content goes; what a crash leaves
// between the two the next one removes.
func (a alone) Unseal(ctx context.Context, ref blob.Ref) error {
	if err := a.Staging.Unseal(ctx, ref); err != nil {
		return err
	}
	return a.store.Remove(ctx, ref.ID.String())
}

// among makes a staging of this process alone look like a shared one: a part that is there is not written over.
type among struct{ exclusive }

// exclusive is a staging of this process alone that says what it would refuse. Package local has it.
type exclusive interface {
	blob.Staging
	// Refuses returns the error with which a Write would be refused before it began; nil: it would not be.
	Refuses(ref blob.Ref, gen int64, n int) error
}

// Caps implements blob.Staging.
func (a among) Caps() blob.Caps {
	caps := a.exclusive.Caps()
	caps.Shared = true
	return caps
}

// Write implements blob.Staging.
func (a among) Write(ctx context.Context, ref blob.Ref, w blob.Write, body blob.Body) (blob.Part, error) {
	if err := ref.Admits(w); err != nil {
		return blob.Part{}, err
	}
	if err := a.Refuses(ref, w.Gen, w.N); err != nil {
		return blob.Part{}, err
	}
	staged, err := a.Load(ctx, ref)
	if err != nil {
		return blob.Part{}, err
	}
	for _, p := range staged.Parts {
		if p.N == w.N {
			return blob.Part{}, &blob.ThereError{Part: p}
		}
	}
	return a.exclusive.Write(ctx, ref, w, body)
}

// Adopt implements blob.Staging: a shared staging copies.
func (a among) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }
