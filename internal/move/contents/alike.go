package contents

import (
	"context"

	"smartdrive/internal/engine/blob"
)

// alone makes a shared staging look like one of this process alone, which it is used as: content
// whose seal came to nothing is taken away again, for no other instance can have vouched for it.
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

// Unseal implements blob.Staging. The parts are there before the content goes; what a crash leaves
// between the two the next one removes.
func (a alone) Unseal(ctx context.Context, ref blob.Ref) error {
	if err := a.Staging.Unseal(ctx, ref); err != nil {
		return err
	}
	return a.store.Remove(ctx, ref.ID.String())
}

// among makes a staging of this process alone look like a shared one.
type among struct{ blob.Staging }

// Caps implements blob.Staging.
func (a among) Caps() blob.Caps {
	caps := a.Staging.Caps()
	caps.Shared = true
	return caps
}

// Adopt implements blob.Staging: a shared staging copies.
func (a among) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }
