package upload

import (
	"context"
	"log/slog"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// transitions writes state changes: the transaction, the analysis of its failure, and the staging
// calls before and after it.
type arrows struct {
	db      *sqldb.DB
	ledger  quota.Ledger
	staging blob.Staging
	store   blob.Store
	sched   *schedule
	alive   func(ctx context.Context, tx *sqldb.Tx) error                // Options.Hold; nil: one instance
	tell    func(ctx context.Context, tx *sqldb.Tx, was, next Row) error // publishes the event of a transition
	log     *slog.Logger
}

// commit writes the transition from was to want together with its ledger move, and returns the new
// row.
func (a *arrows) commit(ctx context.Context, l *live, was, want Row, move quota.Move) (Row, outcome, error) {
	return a.commitWith(ctx, l, was, want, move, func(context.Context, *sqldb.Tx) error { return nil })
}

// commitWith is commit that also runs also in the same transaction.
func (a *arrows) commitWith(
	ctx context.Context, l *live, was, want Row, move quota.Move, also func(context.Context, *sqldb.Tx) error,
) (Row, outcome, error) {
	return a.write(ctx, l, was, func(ctx context.Context, tx *sqldb.Tx) (Row, error) {
		if err := also(ctx, tx); err != nil {
			return Row{}, err
		}
		if err := a.ledger.Apply(ctx, tx, was.Account, move); err != nil {
			return Row{}, err
		}
		next, err := change(ctx, tx, was, want)
		if err != nil {
			return Row{}, err
		}
		return next, a.tell(ctx, tx, was, next)
	})
}

// writeTx runs the transaction fn of a transition, which returns the row written over was, and
// caches that row in l. If the outcome is unknown or a concurrent change won, it invalidates l, so
// that the next attempt or request reads the database.
func (a *arrows) write(ctx context.Context, l *live, was Row, fn func(context.Context, *sqldb.Tx) (Row, error)) (next Row, out outcome, err error) {
	err = a.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		next, err = fn(ctx, tx)
		return err
	})
	if out, err = a.judge(ctx, was, err); err != nil || out == again {
		l.forget()
		a.sched.doubt(ctx, was, err)
		return Row{}, out, err
	}
	l.setRow(next)
	return next, settled, nil
}

// classify interprets the error of a transition's transaction. It returns retry if the row has
// changed: another instance won and moved the ledger, so that the error may only be a consequence.
func (a *arrows) judge(ctx context.Context, was Row, err error) (outcome, error) {
	out, err := unlessLost(err)
	if err == nil || drive.IsKind(err, drive.Unavailable) || sqldb.MaybeWritten(err) {
		return out, err
	}
	if now, findErr := findRow(ctx, a.db, was.ID); findErr == nil && now.Gen != was.Gen {
		return again, nil
	}
	return settled, err
}

// checkMissing interprets a missing staging during a state change: retry if another instance has
// changed the row, otherwise Gone {reason lost}.
func (a *arrows) missing(ctx context.Context, l *live, row Row, cause error) (outcome, error) {
	now, err := findRow(ctx, a.db, row.ID)
	switch {
	case err != nil:
		return settled, err
	case now.Gen != row.Gen:
		l.forget()
		return again, nil
	}
	return settled, drive.Wrap(cause, drive.Gone, "reason", ReasonLost)
}

// fence closes the staging for the row's gen and returns its content; empty if the staging is
// missing.
func (a *arrows) fence(ctx context.Context, l *live, row Row) (blob.Staged, error) {
	l.refuse(row.Gen)
	staged, err := a.staging.Fence(ctx, row.Ref(), row.Gen)
	if drive.IsKind(err, drive.NotFound) {
		return blob.Staged{}, nil
	}
	return staged, err
}

// fenceForReclaim is fence that tolerates a full disk. The fence then lasts only as long as this
// process, and Remove needs no space.
func (a *arrows) close(ctx context.Context, l *live, row Row) (blob.Staged, error) {
	staged, err := a.fence(ctx, l, row)
	if drive.IsKind(err, drive.DiskFull) {
		staged, err = a.staging.Load(ctx, row.Ref())
	}
	return staged, err
}

// reopen prepares the staging of an active row whose gen the journal refuses. It turns content of a
// failed seal back into parts and fences the gen, also in a journal that was lost and knows no gen.
func (a *arrows) reopen(ctx context.Context, row Row) error {
	err := a.staging.Unseal(ctx, row.Ref())
	if err == nil {
		_, err = a.staging.Fence(ctx, row.Ref(), row.Gen)
	}
	if drive.IsKind(err, drive.NotFound) {
		return nil // bytes lost: the next part reports that
	}
	return err
}

// checkAlive fails if other instances have declared this one ended.
func (a *arrows) hold(ctx context.Context, tx *sqldb.Tx) error {
	if a.alive == nil {
		return nil
	}
	return a.alive(ctx, tx)
}

// removeContent removes the content left by a failed seal, if any. With a shared staging it stays
// until the upload ends: see blob/caps.go. No row refers to it, because the upload never became
// done.
func (a *arrows) unstore(ctx context.Context, id drive.UploadID) error {
	return a.store.Remove(ctx, id.String())
}

// cleanUp cancels the timers of an ended upload and removes its staging. If a crash prevents that,
// the auditor removes the staging.
func (a *arrows) clear(ctx context.Context, row Row) {
	a.sched.disarm(ctx, row)
	if row.Reason == ReasonJoined {
		return // the final upload owns the bytes: see merger.removeJoined
	}
	if err := a.staging.Remove(ctx, row.Ref()); err != nil {
		a.log.WarnContext(ctx, "staged bytes of an ended upload could not be removed; the audit removes them later", "upload", row.ID, "error", err)
	}
}
