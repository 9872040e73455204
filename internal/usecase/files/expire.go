package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// How long things are kept that nobody configures.
const (
	tombstoneKeep = 90 * 24 * time.Hour // a sync client that was away longer reads everything again
	operationKeep = 7 * 24 * time.Hour  // after its end
)

// Expired counts what PurgeExpired did.
type Expired struct {
	Trees      int   // accounts whose trash held something that was old enough
	Versions   int64 // old versions dropped
	Tombstones int64
	Operations int64
	More       bool // there is more to do
}

// How much PurgeExpired does before it says that there is more: the rest of the housekeeping is not
// to wait for long.
const (
	expirePage    = 200  // what is due, in one read
	expireMost    = 5000 // places at one go, of each kind
	surveysAtOnce = 20   // steps of the survey
)

// PurgeExpired deletes what has been kept long enough: trash (Options.TrashKeep), versions that are
// neither among the last nor young, tombstones (90 days) and ended operations (7 days). It looks at
// what is due, not at all accounts, works in short transactions and may stop anywhere. A place that
// cannot be tidied does not keep the others from it.
func (f *Files) PurgeExpired(ctx context.Context) (out Expired, err error) {
	surveyErr := f.survey(ctx, &out)
	keep := map[tree.DueKind]time.Duration{
		tree.DueTrash: f.opt.TrashKeep, tree.DueTombstones: tombstoneKeep, tree.DueVersions: f.opt.Tree.KeepVersionsFor(),
	}
	errs := []error{surveyErr}
	for _, kind := range []tree.DueKind{tree.DueTrash, tree.DueTombstones, tree.DueVersions} {
		errs = append(errs, f.expireKind(ctx, kind, f.kept().Add(-keep[kind]), &out))
	}
	return out, errors.Join(append(errs, f.expireOperations(ctx, &out))...)
}

// survey looks for what waits and was not noted, some steps at a time.
func (f *Files) survey(ctx context.Context, out *Expired) error {
	for range surveysAtOnce {
		more, err := f.opt.Tree.Survey(ctx, f.opt.DB)
		if err != nil || !more {
			return err
		}
	}
	out.More = true
	return nil
}

// expireKind tidies the places where something has waited since before a moment.
func (f *Files) expireKind(ctx context.Context, kind tree.DueKind, before drive.Time, out *Expired) error {
	var last tree.Due
	var errs []error
	seen := make(map[string]bool) // what an operation goes on with is due again at once
	for len(seen) < expireMost {
		due, err := f.opt.Tree.ListDue(ctx, f.opt.DB, kind, before, last, expirePage)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("list the %s that is due: %w", kind, err))...)
		}
		for _, last = range due {
			if seen[last.ID] {
				continue
			}
			seen[last.ID] = true
			if err := f.tidy(ctx, last, before, out); err != nil {
				errs = append(errs, fmt.Errorf("purge the old %s of %s: %w", kind, last.ID, err))
			}
			if ctx.Err() != nil {
				return errors.Join(errs...)
			}
		}
		if len(due) < expirePage {
			return errors.Join(errs...)
		}
	}
	out.More = true
	return errors.Join(errs...)
}

// tidy deletes what is old in one place and notes what is left there.
func (f *Files) tidy(ctx context.Context, d tree.Due, before drive.Time, out *Expired) (err error) {
	switch d.Kind {
	case tree.DueTrash:
		err = f.expireTrash(ctx, d.Account, before, out)
	case tree.DueTombstones:
		err = f.expireTombstones(ctx, d.Account, before, out)
	case tree.DueVersions:
		err = f.expireVersions(ctx, d, out)
	}
	if err != nil {
		return err
	}
	return f.write(ctx, drive.Who{Account: d.Account}, func(ctx context.Context, tx *sqldb.Tx) error { return f.opt.Tree.Settle(ctx, tx, d) })
}

func (f *Files) expireOperations(ctx context.Context, out *Expired) error {
	for n := int64(maxBatch); n == maxBatch; out.Operations += n {
		err := f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "operations", Key: "id", Where: "state IN ('done', 'failed') AND updated_at < ?",
				Args: []any{f.kept().Add(-operationKeep)}, Limit: maxBatch,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("drop ended operations: %w", err)
		}
	}
	return nil
}

func (f *Files) expireTrash(ctx context.Context, account drive.AccountID, before drive.Time, out *Expired) error {
	old, err := f.opt.Tree.ListTrashedBefore(ctx, f.opt.DB, account, before, 1)
	if err != nil || len(old) == 0 {
		return err
	}
	out.Trees++
	_, err = f.emptyTrash(ctx, drive.Who{Account: account}, before)
	return err
}

func (f *Files) expireTombstones(ctx context.Context, account drive.AccountID, before drive.Time, out *Expired) error {
	for n := int64(1); n > 0; out.Tombstones += n {
		err := f.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = f.opt.Tree.Forget(ctx, tx, account, before, f.opt.Batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) expireVersions(ctx context.Context, d tree.Due, out *Expired) error {
	id, err := drive.ParseID[drive.NodeID](d.ID)
	if err != nil {
		return err
	}
	for dropped := 1; dropped > 0; out.Versions += int64(dropped) {
		err := f.write(ctx, drive.Who{Account: d.Account}, func(ctx context.Context, tx *sqldb.Tx) error {
			gone, err := f.opt.Tree.DropVersions(ctx, tx, tree.Node{ID: id, Account: d.Account}, f.opt.Batch)
			if dropped = len(gone); err != nil {
				return err
			}
			return f.drop(ctx, tx, d.Account, gone)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
