package upload

import (
	"context"

	"smartdrive/internal/base/drive"
)

// EndRevoked ends an open upload of the caller's to a folder that they may not send to any more,
// as the next part would: its reservation goes back. Another upload stays as it is. It may be
// repeated.
func EndRevoked(ctx context.Context, s *Sessions, who drive.Who, id drive.UploadID) error {
	row, err := findRow(ctx, s.DB, id)
	if drive.IsKind(err, drive.NotFound) || err == nil && (row.Account == who.Account || row.User != who.User || !row.State.Open()) {
		return nil
	}
	if err == nil {
		_, _, err = s.filler.offset(ctx, who, id) // it is asked for by whoever has the turn
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden, drive.Gone) {
		return nil
	}
	return err
}
