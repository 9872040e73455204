package contents

import (
	"context"

	"smartdrive/internal/engine/blob"
)

// exclusiveStaging makes a staging shared between instances behave like one of a single process. No
// other instance can have confirmed the content of a failed seal, so Unseal deletes it.
type exclusiveStaging struct {
	blob.Staging
	store blob.Store
}

// Caps implements blob.Staging.
func (a exclusiveStaging) Caps() blob.Caps {
	caps := a.Staging.Caps()
	caps.Shared = false
	return caps
}

// Unseal implements blob.Staging. The parts are restored before the content is deleted. If the
// process crashes in between, the next Unseal deletes the content.
func (a exclusiveStaging) Unseal(ctx context.Context, ref blob.Ref) error {
	if err := a.Staging.Unseal(ctx, ref); err != nil {
		return err
	}
	return a.store.Remove(ctx, ref.ID.String())
}

// sharedStaging makes a staging of a single process behave like a shared one.
type sharedStaging struct{ blob.Staging }

// Caps implements blob.Staging.
func (a sharedStaging) Caps() blob.Caps {
	caps := a.Staging.Caps()
	caps.Shared = true
	return caps
}

// Adopt implements blob.Staging. It reports false: a shared staging copies.
func (a sharedStaging) Adopt(context.Context, blob.Ref, blob.Ref) (bool, error) { return false, nil }
