package share

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// CountDownload must be called before content of a file is sent. A request from the first byte is a
// download and is counted. Any other request belongs to a download that this visit has begun, or
// else is counted as a new one, whose first byte is then free. CountDownload does nothing for
// partial requests of a share without a limit. Gone {reason: used-up} beyond the limit.
func (s *Shares) CountDownload(ctx context.Context, v Visit, file drive.NodeID, fromStart bool) error {
	if !fromStart && !v.Limited() {
		return nil
	}
	err := s.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		if v.Limited() {
			if begun, err := v.hasBegun(ctx, tx, file, fromStart); err != nil || begun {
				return err
			}
		}
		return v.countNew(ctx, tx, file, fromStart, s.Now())
	})
	if err != nil && !drive.IsKind(err, drive.Gone) {
		err = fmt.Errorf("count a download of share %s: %w", v.share.ID, err)
	}
	return err
}

// CheckDownload must be called before a response that CountDownload does not count: the first byte
// or two, HEAD, or "not modified". Gone {reason: used-up} if the share is used up, unless the visit
// has begun a download of the file.
func (s *Shares) CheckDownload(ctx context.Context, v Visit, file drive.NodeID) error {
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
		return errClosed(UsedUp)
	}
	return nil
}

// hasBegun reports whether a request belongs to a counted download. Concurrent range requests may
// arrive in any order; a lock on the share's row serializes them.
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

// countNew counts a new download of file within tx, and with a limit remembers it for this visit,
// so that parts of it do not count again. It returns Gone {reason: used-up} if the limit is
// reached.
func (v Visit) countNew(ctx context.Context, tx *sqldb.Tx, file drive.NodeID, fromStart bool, now drive.Time) error {
	n, err := tx.Exec(ctx, `UPDATE shares SET downloads = downloads + 1
		WHERE id = ? AND epoch = ? AND (max_downloads IS NULL OR downloads < max_downloads)`, v.share.ID, v.share.Epoch)
	switch {
	case err != nil:
		return err
	case n == 0:
		return errClosed(UsedUp)
	case !v.Limited():
		return nil
	}
	_, err = tx.InsertNew(ctx, "INSERT INTO share_downloads (visit_id, node_id, share_id, begun_at, ahead) VALUES (?, ?, ?, ?, ?)",
		v.id, file, v.share.ID, now, !fromStart)
	return err
}
