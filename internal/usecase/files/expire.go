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

// ExpiryOptions configure NewExpiry.
type ExpiryOptions struct {
	// TrashKeep is how long the trash keeps what was put there. Default: 720 h.
	TrashKeep time.Duration
	// Kept is the clock that says for how long something was kept before it is deleted; see package
	// retention. Default: that of the files.
	Kept func() time.Time
}

// Expiry deletes for good what has been kept long enough. It is safe for concurrent use.
type Expiry struct {
	*books
	tree      *tree.Tree
	files     *Files // who empties a trash
	batch     int
	trashKeep time.Duration
	kept      func() time.Time
}

// NewExpiry returns the Expiry of files.
func NewExpiry(f *Files, opt ExpiryOptions) *Expiry {
	if opt.TrashKeep == 0 {
		opt.TrashKeep = 720 * time.Hour
	}
	if opt.Kept == nil {
		opt.Kept = f.opt.Now
	}
	return &Expiry{books: f.books, tree: f.opt.Tree, files: f, batch: f.opt.Batch, trashKeep: opt.TrashKeep, kept: opt.Kept}
}

func (e *Expiry) now() drive.Time { return drive.TimeOf(e.kept()) }

// How long things are kept that nobody configures.
const (
	tombstoneKeep = 90 * 24 * time.Hour // a sync client that was away longer reads everything again
	operationKeep = 7 * 24 * time.Hour  // after its end
)

// Expired counts what Purge did.
type Expired struct {
	Trees      int   // accounts whose trash held something that was old enough
	Versions   int64 // old versions dropped
	Tombstones int64
	Operations int64
	More       bool // there is more to do
}

// How much Purge does before it says that there is more: the rest of the housekeeping is not
// to wait for long.
const (
	expirePage    = 200  // what is due, in one read
	expireMost    = 5000 // places at one go, of each kind
	surveysAtOnce = 20   // steps of the survey
)

// Purge deletes what has been kept long enough: trash (ExpiryOptions.TrashKeep), versions that are
// neither among the last nor young, tombstones (90 days) and ended operations (7 days). It looks at
// what is due, not at all accounts, works in short transactions and may stop anywhere. A place that
// cannot be tidied does not keep the others from it.
func (e *Expiry) Purge(ctx context.Context) (out Expired, err error) {
	surveyErr := e.survey(ctx, &out)
	keep := map[tree.DueKind]time.Duration{
		tree.DueTrash: e.trashKeep, tree.DueTombstones: tombstoneKeep, tree.DueVersions: e.tree.KeepVersionsFor(),
	}
	errs := []error{surveyErr}
	for _, kind := range []tree.DueKind{tree.DueTrash, tree.DueTombstones, tree.DueVersions} {
		errs = append(errs, e.expireKind(ctx, tree.Overdue{Kind: kind, Before: e.now().Add(-keep[kind])}, &out), e.expireOwn(ctx, kind, &out))
	}
	return out, errors.Join(append(errs, e.expireOperations(ctx, &out))...)
}

// expireOwn tidies the spaces that keep something for days of their own.
func (e *Expiry) expireOwn(ctx context.Context, kind tree.DueKind, out *Expired) error {
	all, err := tree.ListKeeping(ctx, e.db, kind)
	if err != nil {
		return fmt.Errorf("list who keeps %s for days of their own: %w", kind, err)
	}
	var errs []error
	for _, k := range all {
		errs = append(errs, e.expireKind(ctx, tree.Overdue{Kind: kind, Before: e.now().Add(-time.Duration(k.Days) * 24 * time.Hour), Account: k.Account}, out))
	}
	return errors.Join(errs...)
}

// survey looks for what waits and was not noted, some steps at a time.
func (e *Expiry) survey(ctx context.Context, out *Expired) error {
	for range surveysAtOnce {
		more, err := e.tree.Survey(ctx, e.db)
		if err != nil || !more {
			return err
		}
	}
	out.More = true
	return nil
}

// expireKind tidies the places where something has waited since before a moment.
func (e *Expiry) expireKind(ctx context.Context, of tree.Overdue, out *Expired) error {
	var last tree.Due
	var errs []error
	seen := make(map[string]bool) // what an operation goes on with is due again at once
	for len(seen) < expireMost {
		due, err := e.tree.ListDue(ctx, e.db, of, last, expirePage)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("list the %s that is due: %w", of.Kind, err))...)
		}
		for _, last = range due {
			if seen[last.ID] {
				continue
			}
			seen[last.ID] = true
			if err := e.tidy(ctx, last, of.Before, out); err != nil {
				errs = append(errs, fmt.Errorf("purge the old %s of %s: %w", of.Kind, last.ID, err))
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
func (e *Expiry) tidy(ctx context.Context, d tree.Due, before drive.Time, out *Expired) (err error) {
	switch d.Kind {
	case tree.DueTrash:
		err = e.expireTrash(ctx, d.Account, before, out)
	case tree.DueTombstones:
		err = e.expireTombstones(ctx, d.Account, before, out)
	case tree.DueVersions:
		err = e.expireVersions(ctx, d, out)
	}
	if err != nil {
		return err
	}
	return e.write(ctx, drive.Who{Account: d.Account}, func(ctx context.Context, tx *sqldb.Tx) error { return e.tree.Settle(ctx, tx, d) })
}

func (e *Expiry) expireOperations(ctx context.Context, out *Expired) error {
	for n := int64(maxBatch); n == maxBatch; out.Operations += n {
		err := e.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "operations", Key: "id", Where: "state IN ('done', 'failed') AND updated_at < ?",
				Args: []any{e.now().Add(-operationKeep)}, Limit: maxBatch,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("drop ended operations: %w", err)
		}
	}
	return nil
}

func (e *Expiry) expireTrash(ctx context.Context, account drive.AccountID, before drive.Time, out *Expired) error {
	old, err := e.tree.ListTrashedBefore(ctx, e.db, account, before, 1)
	if err != nil || len(old) == 0 {
		return err
	}
	out.Trees++
	_, err = e.files.emptyTrash(ctx, drive.Who{Account: account}, before)
	return err
}

func (e *Expiry) expireTombstones(ctx context.Context, account drive.AccountID, before drive.Time, out *Expired) error {
	for n := int64(1); n > 0; out.Tombstones += n {
		err := e.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = e.tree.Forget(ctx, tx, account, before, e.batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (e *Expiry) expireVersions(ctx context.Context, d tree.Due, out *Expired) error {
	id, err := drive.ParseID[drive.NodeID](d.ID)
	if err != nil {
		return err
	}
	for dropped := 1; dropped > 0; out.Versions += int64(dropped) {
		err := e.write(ctx, drive.Who{Account: d.Account}, func(ctx context.Context, tx *sqldb.Tx) error {
			gone, err := e.tree.DropVersions(ctx, tx, tree.Node{ID: id, Account: d.Account}, e.batch)
			if dropped = len(gone); err != nil {
				return err
			}
			return e.drop(ctx, tx, d.Account, gone)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
