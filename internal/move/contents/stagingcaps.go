package contents

import (
	"context"

	"example.org/smartdrive/internal/engine/blob"
)

// exclusiveStaging makes a staging shared between instances behave like one of a single process. No
// other instance can have confirmed the content of a failed seal, so Unseal deletes it.
type exclusiveStaging struct {
	blob.Staging
	store blob.Store
}

// Caps returns those of the Staging with Shared false.
func (a exclusiveStaging) Caps() blob.Caps {
	caps := a.Staging.Caps()
	caps.Shared = false
	return caps
}

// Unseal restores the parts and then deletes the content. If the process crashes in between, the
// next Unseal deletes the content. Errors: those of Staging.Unseal and Store.Remove; the caller may
// repeat it.
func (a exclusiveStaging) Unseal(ctx context.Context, ref blob.Ref) error {
	if err := a.Staging.Unseal(ctx, ref); err != nil {
		return err
	}
	return a.store.Remove(ctx, ref.ID.String())
}

// sharedStaging makes a staging of a single process behave like a shared one.
type sharedStaging struct{ blob.Staging }

// Caps returns those of the Staging with Shared true.
func (a sharedStaging) Caps() blob.Caps {
	caps := a.Staging.Caps()
	caps.Shared = true
	return caps
}

// Adopt always returns false: the caller must copy the parts, as with a shared staging.
func (a sharedStaging) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }
