package upload

import (
	"context"
	"log/slog"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/quota"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/sqldb"
)

// arrows is what all changes of state have in common: the transaction that writes one, what is
// asked when it does not come about, and the staging on both sides of it.
type arrows struct {
	db      *sqldb.DB
	ledger  quota.Ledger
	staging blob.Staging
	store   blob.Store
	sched   *schedule
	alive   func(ctx context.Context, tx *sqldb.Tx) error                // Options.Hold
	tell    func(ctx context.Context, tx *sqldb.Tx, was, next Row) error // publishes what the arrow is called
	log     *slog.Logger
}

// commit writes one arrow with its ledger move, from was to want.
func (a *arrows) commit(ctx context.Context, l *live, was, want Row, move quota.Move) (Row, outcome, error) {
	return a.commitWith(ctx, l, was, want, move, func(context.Context, *sqldb.Tx) error { return nil })
}

// commitWith is commit of a change that writes more than the row, in the same transaction.
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

// write runs the transaction of an arrow, which returns the row that it has written over was, and
// brings the live up to date. When the outcome is not known, or another was first, the live is
// forgotten and the next attempt or request reads the truth.
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

// judge says what the transaction of an arrow came to. An error may only follow from another
// instance having been first: it has moved the ledger, so that what was to be given back is not
// there, or what was to be taken does not fit a second time.
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

// missing judges a staging that is not there, for a change of state: another instance has ended the
// upload since row was read, or else its bytes were removed from outside.
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

// fence closes the staging for the row's gen and returns what it holds; nothing when its directory
// is lost.
func (a *arrows) fence(ctx context.Context, l *live, row Row) (blob.Staged, error) {
	l.refuse(row.Gen)
	staged, err := a.staging.Fence(ctx, row.Ref(), row.Gen)
	if drive.IsKind(err, drive.NotFound) {
		return blob.Staged{}, nil
	}
	return staged, err
}

// close fences the staging of an upload that is given up. On a full disk the fence cannot be
// written, but holds as long as this process, and Remove needs no room.
func (a *arrows) close(ctx context.Context, l *live, row Row) (blob.Staged, error) {
	staged, err := a.fence(ctx, l, row)
	if drive.IsKind(err, drive.DiskFull) {
		staged, err = a.staging.Load(ctx, row.Ref())
	}
	return staged, err
}

// reopen makes ready what the journal refuses though the row is active: the content of a seal that
// came to nothing becomes parts again, and nobody writes under the row's gen any more, also where
// the journal was lost and knows of no gen.
func (a *arrows) reopen(ctx context.Context, row Row) error {
	err := a.staging.Unseal(ctx, row.Ref())
	if err == nil {
		_, err = a.staging.Fence(ctx, row.Ref(), row.Gen)
	}
	if drive.IsKind(err, drive.NotFound) {
		return nil // its bytes are lost; the part will say so
	}
	return err
}

// hold fails where this instance has been declared ended.
func (a *arrows) hold(ctx context.Context, tx *sqldb.Tx) error {
	if a.alive == nil {
		return nil
	}
	return a.alive(ctx, tx)
}

// unstore removes the content of a seal that came to nothing, if there is any: on a shared staging
// it stays until the upload ends; see blob/caps.go. No row names it, for its upload was never done.
func (a *arrows) unstore(ctx context.Context, id drive.UploadID) error {
	return a.store.Remove(ctx, id.String())
}

// clear removes what an upload that has ended leaves behind: its timers and its staging. A crash
// here leaves a staging without an open row, which the auditor removes.
func (a *arrows) clear(ctx context.Context, row Row) {
	a.sched.disarm(ctx, row)
	if row.Reason == ReasonJoined {
		return // its bytes are its final's: see joins.remove
	}
	if err := a.staging.Remove(ctx, row.Ref()); err != nil {
		a.log.WarnContext(ctx, "remove a staging", "upload", row.ID, "error", err)
	}
}
