package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
)

// Abandon ends a copy with an error that a run met while the copy was visible (shown) or not.
func (s *Copies) Abandon(ctx context.Context, id drive.OperationID, shown bool, cause error) error {
	_, err := s.handler.abandon(ctx, id, func(now bool) bool { return now == shown }, cause)
	return err
}
