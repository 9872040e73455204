package fsck

import (
	"context"
	"maps"
	"slices"

	"smartdrive/internal/engine/sqldb"
)

// leftovers are what processes that died have left behind, and what rows or names explain. After a
// kill there always are some, so they are no findings.
type leftovers struct{ *pass }

// takeAll takes contents. It deletes them together, because in a bucket each removal from a pack
// writes the rest of that pack again. One that could not be deleted is tried once more, alone.
func (l leftovers) takeAll(ctx context.Context, all []*defect) error {
	files := map[string]*defect{}
	for _, d := range all {
		files[d.file] = d
	}
	if l.scope.Repair && len(files) > 1 {
		l.opt.Log.InfoContext(ctx, "delete contents that processes that died have left behind", "contents", len(files))
		gone, err := l.Store.RemoveAll(ctx, slices.Sorted(maps.Keys(files)))
		if err != nil {
			l.opt.Log.WarnContext(ctx, "contents that are left behind are not all deleted", "error", err)
		}
		for _, name := range gone {
			files[name].fix = func(context.Context) error {
				l.Counters.Removed.Add(1)
				return nil
			}
		}
	}
	for _, d := range all {
		if err := l.found(ctx, *d); err != nil {
			return err
		}
	}
	return nil
}

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
