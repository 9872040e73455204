package files

import (
	"context"
	"errors"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// ExpiryOptions configures NewExpiry. The zero value selects the defaults.
type ExpiryOptions struct {
	// TrashKeep is how long trashed nodes are kept. Default: 720 h.
	TrashKeep time.Duration
	// RetentionClock is the clock that retention periods are measured with; see package retention.
	// Default: the clock of Files.
	RetentionClock func() time.Time
}

// Expiry permanently deletes data whose retention period has ended. It is safe for concurrent use.
type Expiry struct {
	*accounting
	tree      *tree.Tree
	files     *Files // empties trashes
	batch     int
	trashKeep time.Duration
	kept      func() time.Time
}

// NewExpiry returns the Expiry of the files of f, with defaults for the zero fields of opt.
func NewExpiry(f *Files, opt ExpiryOptions) *Expiry {
	if opt.TrashKeep == 0 {
		opt.TrashKeep = 720 * time.Hour
	}
	if opt.RetentionClock == nil {
		opt.RetentionClock = f.opt.Now
	}
	return &Expiry{accounting: f.accounting, tree: f.opt.Tree, files: f, batch: f.opt.Batch, trashKeep: opt.TrashKeep, kept: opt.RetentionClock}
}

// now returns the time of the retention clock.
func (e *Expiry) now() drive.Time { return drive.TimeOf(e.kept()) }

// Fixed retention periods.
const (
	tombstoneKeep = 90 * 24 * time.Hour // a sync client that was offline longer reads the feed from the beginning
	operationKeep = 7 * 24 * time.Hour  // after the operation ended
)

// Expired counts what one call of Purge deleted.
type Expired struct {
	Trees      int   // accounts whose trash held nodes that were old enough
	Versions   int64 // old versions dropped
	Tombstones int64
	Operations int64
	More       bool // Purge stopped at its limit; call it again
}

// Bounds of one Purge call, so that other maintenance work is not delayed.
const (
	expirePage  = 200  // due entries read by one statement
	maxPerKind  = 5000 // due entries of each kind
	surveySteps = 20   // steps of the survey
)

// Purge deletes trash (older than ExpiryOptions.TrashKeep), old versions beyond those to keep,
// tombstones (90 days) and ended operations (7 days). A space may have its own periods. Purge reads
// the due entries, not all accounts, and works in short transactions. It may stop anywhere; call it
// again. A failure at one entry does not stop the others; all errors are joined.
func (e *Expiry) Purge(ctx context.Context) (out Expired, err error) {
	surveyErr := e.survey(ctx, &out)
	keep := map[tree.DueKind]time.Duration{
		tree.DueTrash: e.trashKeep, tree.DueTombstones: tombstoneKeep, tree.DueVersions: e.tree.KeepVersionsFor(),
	}
	errs := []error{surveyErr}
	for _, kind := range []tree.DueKind{tree.DueTrash, tree.DueTombstones, tree.DueVersions} {
		errs = append(errs, e.expireKind(ctx, tree.Overdue{Kind: kind, Before: e.now().Add(-keep[kind])}, &out), e.expireWithOwnPeriod(ctx, kind, &out))
	}
	return out, errors.Join(append(errs, e.expireOperations(ctx, &out))...)
}

// expireWithOwnPeriod deletes what is due in the spaces that configure their own retention period
// for the kind, and adds the numbers to out. Errors of single spaces are joined.
func (e *Expiry) expireWithOwnPeriod(ctx context.Context, kind tree.DueKind, out *Expired) error {
	all, err := tree.ListRetentionPeriods(ctx, e.db, kind)
	if err != nil {
		return fmt.Errorf("list who keeps %s for days of their own: %w", kind, err)
	}
	var errs []error
	for _, k := range all {
		errs = append(errs, e.expireKind(ctx, tree.Overdue{Kind: kind, Before: e.now().Add(-time.Duration(k.Days) * 24 * time.Hour), Account: k.Account}, out))
	}
	return errors.Join(errs...)
}

// survey finds deletable data that has no due entry (tree.Due) and inserts the entries, a bounded
// number of steps per call. It sets out.More if it is not at the end.
func (e *Expiry) survey(ctx context.Context, out *Expired) error {
	for range surveySteps {
		more, err := e.tree.Survey(ctx, e.db)
		if err != nil || !more {
			return err
		}
	}
	out.More = true
	return nil
}

// expireKind deletes what is due at the places whose due entries match of, maxPerKind places at
// most, and adds the numbers to out. Errors of single places are joined, and the others are
// continued.
func (e *Expiry) expireKind(ctx context.Context, of tree.Overdue, out *Expired) error {
	var last tree.Due
	var errs []error
	seen := make(map[string]bool) // an operation that continues makes its place due again at once
	for len(seen) < maxPerKind {
		due, err := e.tree.ListDue(ctx, e.db, of, last, expirePage)
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("list the %s that is due: %w", of.Kind, err))...)
		}
		for _, last = range due {
			if seen[last.ID] {
				continue
			}
			seen[last.ID] = true
			if err := e.expirePlace(ctx, last, of.Before, out); err != nil {
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

// expirePlace deletes what is due of the entry d, adds the numbers to out, and then updates the due
// entry in a transaction of its own. After an error the entry stays due.
func (e *Expiry) expirePlace(ctx context.Context, d tree.Due, before drive.Time, out *Expired) (err error) {
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
	return e.write(ctx, drive.Who{Account: d.Account}, func(ctx context.Context, tx *sqldb.Tx) error { return e.tree.RefreshDue(ctx, tx, d) })
}

// expireOperations deletes the rows of operations that ended operationKeep ago, in batches, until
// none is left. It adds their number to out.
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

// expireTrash permanently deletes the nodes of the account that were trashed before the given time;
// an operation may continue this after the return. It adds the account to out.Trees if there are
// any.
func (e *Expiry) expireTrash(ctx context.Context, account drive.AccountID, before drive.Time, out *Expired) error {
	old, err := e.tree.ListTrashedBefore(ctx, e.db, account, before, 1)
	if err != nil || len(old) == 0 {
		return err
	}
	out.Trees++
	_, err = e.files.emptyTrash(ctx, drive.Who{Account: account}, before)
	return err
}

// expireTombstones deletes the account's tombstones from before the given time, in batches, until
// none is left. It adds their number to out.
func (e *Expiry) expireTombstones(ctx context.Context, account drive.AccountID, before drive.Time, out *Expired) error {
	for n := int64(1); n > 0; out.Tombstones += n {
		err := e.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = e.tree.DropTombstones(ctx, tx, account, before, e.batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// expireVersions drops the expired versions of the file that d names, in batches, and releases
// their blobs. It adds their number to out.
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
