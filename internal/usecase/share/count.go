package share

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Count is called before content of a file is sent. A request that begins at the first byte is a
// download and is counted; any other is part of one that this visit has begun, or it is counted and
// begins one, whose first byte is free then. Beyond the limit it is Gone {reason: used-up}.
func (s *Shares) Count(ctx context.Context, v Visit, file drive.NodeID, fromStart bool) error {
	if !fromStart && !v.Limited() {
		return nil
	}
	err := s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if v.Limited() {
			if begun, err := v.hasBegun(ctx, tx, file, fromStart); err != nil || begun {
				return err
			}
		}
		return v.begin(ctx, tx, file, fromStart, s.Now())
	})
	if err != nil && !drive.IsKind(err, drive.Gone) {
		err = fmt.Errorf("count a download of share %s: %w", v.share.ID, err)
	}
	return err
}

// Admit is called before an answer that Count is not asked about: a look at the first byte or two,
// a HEAD, "not modified". Of a share that is used up it is Gone {reason: used-up}, unless the visit
// has begun a download of the file.
func (s *Shares) Admit(ctx context.Context, v Visit, file drive.NodeID) error {
	if !v.Limited() {
		return nil
	}
	var may bool
	err := s.opt.DB.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM shares WHERE id = ? AND (max_downloads IS NULL OR downloads < max_downloads))
		OR EXISTS (SELECT 1 FROM share_downloads WHERE visit_id = ? AND node_id = ?)`, v.share.ID, v.id, file).Scan(&may)
	if err != nil {
		return fmt.Errorf("look for a download of share %s: %w", v.share.ID, err)
	}
	if !may {
		return closed(UsedUp)
	}
	return nil
}

// hasBegun reports whether a request belongs to a download that was counted. Pieces that are
// fetched at the same time come in any order, and take turns here.
func (v Visit) hasBegun(ctx context.Context, tx *sqldb.Tx, file drive.NodeID, fromStart bool) (yes bool, err error) {
	var n int64
	err = tx.QueryRow(ctx, "SELECT 1 FROM shares WHERE id = ?"+tx.ForUpdate(), v.share.ID).Scan(&n)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return false, err
	}
	if fromStart {
		n, err = tx.Exec(ctx, "UPDATE share_downloads SET ahead = 0 WHERE visit_id = ? AND node_id = ? AND ahead = 1", v.id, file)
		return n == 1, err
	}
	err = tx.QueryRow(ctx, "SELECT EXISTS (SELECT 1 FROM share_downloads WHERE visit_id = ? AND node_id = ?)", v.id, file).Scan(&n)
	return n == 1, err
}

// begin counts one more download, if there may be one more.
func (v Visit) begin(ctx context.Context, tx *sqldb.Tx, file drive.NodeID, fromStart bool, now drive.Time) error {
	n, err := tx.Exec(ctx, `UPDATE shares SET downloads = downloads + 1
		WHERE id = ? AND epoch = ? AND (max_downloads IS NULL OR downloads < max_downloads)`, v.share.ID, v.share.Epoch)
	switch {
	case err != nil:
		return err
	case n == 0:
		return closed(UsedUp)
	case !v.Limited():
		return nil
	}
	_, err = tx.InsertNew(ctx, "INSERT INTO share_downloads (visit_id, node_id, share_id, begun_at, ahead) VALUES (?, ?, ?, ?, ?)",
		v.id, file, v.share.ID, now, !fromStart)
	return err
}
