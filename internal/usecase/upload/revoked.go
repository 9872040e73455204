package upload

import (
	"context"
	"errors"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ReclaimRevoked reclaims a guest's open upload if the guest may no longer send to its folder.
// Uploads of the caller's own account, ended uploads and permitted ones stay as they are. It is
// idempotent.
func ReclaimRevoked(ctx context.Context, s *Sessions, who drive.Who, id drive.UploadID) error {
	row, err := findRow(ctx, s.DB, id)
	if drive.IsKind(err, drive.NotFound) || err == nil && (row.Account == who.Account || row.User != who.User || !row.State.Open()) {
		return nil
	}
	if err == nil {
		if _, err = s.auth.authorize(ctx, who, &row); drive.IsKind(err, drive.NotFound, drive.Forbidden) {
			_, _, err = s.appender.offset(ctx, who, id) // checks again under the state lock and reclaims the upload
		}
	}
	if drive.IsKind(err, drive.NotFound, drive.Forbidden, drive.Gone) {
		return nil
	}
	return err
}

// ReclaimAllRevoked runs ReclaimRevoked for all guest uploads, because a guest who lost access may
// never return. Uploads received by a collect link are skipped: the link closes while its owner
// lacks the right, and its uploads continue once it opens again. If some uploads cannot be ended
// the others still are; the error names the first one.
func ReclaimAllRevoked(ctx context.Context, s *Sessions) error {
	const page = 500
	type guest struct {
		id  drive.UploadID
		who drive.Who
	}
	var first error
	failed := 0
	for after := (drive.UploadID{}); ; {
		rows, err := s.DB.Query(ctx, `SELECT u.id, u.user_id, x.account_id FROM uploads u JOIN users x ON x.id = u.user_id
			WHERE u.state IN ('active', 'parked') AND u.id > ? AND x.account_id <> u.account_id
				AND NOT EXISTS (SELECT 1 FROM collected c WHERE c.upload_id = u.id) ORDER BY u.id LIMIT ?`, after.String(), page)
		all, err := sqldb.Scan(rows, err, func(g *guest, scan func(...any) error) error { return scan(&g.id, &g.who.User, &g.who.Account) })
		if err != nil {
			return errors.Join(fmt.Errorf("list the uploads of guests: %w", err), first)
		}
		for _, g := range all {
			if err := ReclaimRevoked(ctx, s, g.who, g.id); err != nil {
				if failed++; first == nil {
					first = fmt.Errorf("end upload %s, whose sender may not send any more: %w", g.id, err)
				}
			}
			after = g.id
		}
		if len(all) < page && failed > 1 {
			return fmt.Errorf("%d uploads, the first: %w", failed, first)
		}
		if len(all) < page {
			return first
		}
	}
}
