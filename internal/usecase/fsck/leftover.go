package fsck

import (
	"context"
	"maps"
	"slices"

	"example.org/smartdrive/internal/engine/sqldb"
)

// leftovers handles remains of crashed processes that rows or names explain. They are normal after
// a kill, so they are not findings.
type leftovers struct{ *pass }

// deleteAll handles leftover contents. It deletes them together, because in a bucket each deletion
// from a pack rewrites the pack. A content that was not deleted is tried again alone.
func (l leftovers) deleteAll(ctx context.Context, all []*defect) error {
	files := map[string]*defect{}
	for _, d := range all {
		files[d.file] = d
	}
	if l.scope.Repair && len(files) > 1 {
		l.opt.Log.InfoContext(ctx, "deleting contents left by crashed processes", "contents", len(files))
		gone, err := l.Store.RemoveAll(ctx, slices.Sorted(maps.Keys(files)))
		if err != nil {
			l.opt.Log.WarnContext(ctx, "not all contents left by crashed processes could be deleted; each is tried again", "error", err)
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

// handle counts a leftover and deletes it in a repairing pass. If the deletion fails, done is false
// and the leftover becomes a finding.
func (l leftovers) handle(ctx context.Context, d defect) (done bool, err error) {
	if l.scope.Repair {
		l.opt.Log.InfoContext(ctx, "deleting a leftover of a crashed process", "invariant", d.Invariant, "subject", d.Subject)
		if err := d.fix(ctx); err != nil {
			l.opt.Log.ErrorContext(ctx, "a leftover could not be deleted; it is recorded as a finding", "invariant", d.Invariant, "subject", d.Subject, "error", err)
			return false, ctx.Err()
		}
		err = l.closeFinding(ctx, d)
	}
	l.report.Leftovers.Count++
	l.report.Leftovers.Bytes += d.bytes
	return true, err
}

// closeFinding marks the recorded findings about a deleted leftover as repaired. None is no error.
func (l leftovers) closeFinding(ctx context.Context, d defect) error {
	return l.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE findings SET repaired = 1 WHERE subject = ? AND invariant = ? AND repaired = 0`, d.Subject, d.Invariant)
		return err
	})
}
