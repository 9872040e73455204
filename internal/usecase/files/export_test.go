package files

import (
	"context"

	"smartdrive/internal/base/drive"
)

// Abandon ends a copy for a cause that a run of it has met, before it was shown or after.
func (s *Copies) Abandon(ctx context.Context, id drive.OperationID, shown bool, cause error) error {
	_, err := s.handler.abandon(ctx, id, func(now bool) bool { return now == shown }, cause)
	return err
}
