package files

import (
	"context"

	"smartdrive/internal/base/drive"
)

// RunOnce does one batch of an operation.
func (f *Files) RunOnce(ctx context.Context, id drive.OperationID) (Operation, error) {
	o, err := f.runOnce(ctx, id)
	return o.Operation, err
}

// Abandon ends a copy for a cause that a run of it has met, before it was shown or after.
func (f *Files) Abandon(ctx context.Context, id drive.OperationID, shown bool, cause error) error {
	_, err := f.abandon(ctx, id, func(now bool) bool { return now == shown }, cause)
	return err
}
