package upload

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
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
		if _, err = s.gate.check(ctx, who, &row); drive.IsKind(err, drive.NotFound, drive.Forbidden) {
			_, _, err = s.filler.offset(ctx, who, id) // whoever has the turn asks once more, and ends it
		}
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden, drive.Gone) {
		return nil
	}
	return err
}

// EndAllRevoked is EndRevoked for all uploads of guests: of senders who never come back. It asks
// once for each of them, and interrupts none that goes on.
func EndAllRevoked(ctx context.Context, s *Sessions) error {
	const page = 500
	type guest struct {
		id  drive.UploadID
		who drive.Who
	}
	for after := (drive.UploadID{}); ; {
		rows, err := s.DB.Query(ctx, `SELECT u.id, u.user_id, x.account_id FROM uploads u JOIN users x ON x.id = u.user_id
			WHERE u.state IN ('active', 'parked') AND u.id > ? AND x.account_id <> u.account_id ORDER BY u.id LIMIT ?`, after.String(), page)
		all, err := sqldb.Scan(rows, err, func(g *guest, scan func(...any) error) error { return scan(&g.id, &g.who.User, &g.who.Account) })
		if err != nil {
			return fmt.Errorf("list the uploads of guests: %w", err)
		}
		for _, g := range all {
			if err := EndRevoked(ctx, s, g.who, g.id); err != nil {
				return fmt.Errorf("end upload %s, whose sender may not send any more: %w", g.id, err)
			}
			after = g.id
		}
		if len(all) < page {
			return nil
		}
	}
}
