package fsck

import (
	"context"

	"smartdrive/internal/engine/sqldb"
)

// leftovers are what processes that died have left behind, and what rows or names explain. After a
// kill there always are some, so they are no findings.
type leftovers struct{ *pass }

// take counts a leftover, and deletes it in a pass that repairs. One that cannot be deleted is not
// done: it is a finding.
func (l leftovers) take(ctx context.Context, d defect) (done bool, err error) {
	if l.scope.Repair {
		l.opt.Log.InfoContext(ctx, "delete what a process that died has left behind", "invariant", d.Invariant, "subject", d.Subject)
		if err := d.fix(ctx); err != nil {
			l.opt.Log.ErrorContext(ctx, "repair", "invariant", d.Invariant, "subject", d.Subject, "error", err)
			return false, ctx.Err()
		}
		err = l.closeFinding(ctx, d)
	}
	l.report.Leftovers.Count++
	l.report.Leftovers.Bytes += d.bytes
	return true, err
}

// closeFinding notes that a leftover is gone which an earlier pass could not delete, and recorded.
func (l leftovers) closeFinding(ctx context.Context, d defect) error {
	return l.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE findings SET repaired = 1 WHERE subject = ? AND invariant = ? AND repaired = 0`, d.Subject, d.Invariant)
		return err
	})
}
