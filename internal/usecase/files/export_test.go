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
