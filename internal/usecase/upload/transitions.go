package upload

import (
	"context"
	"log/slog"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/quota"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// transitions writes state changes: the transaction, the analysis of its failure, and the staging
// calls before and after it.
type transitions struct {
	db      *sqldb.DB
	ledger  quota.Ledger
	staging blob.Staging
	store   blob.Store
	sched   *schedule
	alive   func(ctx context.Context, tx *sqldb.Tx) error                // Options.CheckInstance; nil: one instance
	emit    func(ctx context.Context, tx *sqldb.Tx, was, next Row) error // publishes the event of a transition
	log     *slog.Logger
}

// commit writes the row want over was and makes the ledger move, in one transaction, and returns
// the new row. If the row has changed since was was read, it writes nothing and returns retry.
func (t *transitions) commit(ctx context.Context, l *liveUpload, was, want Row, move quota.Move) (Row, outcome, error) {
	return t.commitWith(ctx, l, was, want, move, func(context.Context, *sqldb.Tx) error { return nil })
}

// commitWith writes the row want over was and makes the ledger move, in one transaction that first
// runs also, and returns the new row. If the row has changed since was was read, it writes nothing
// and returns retry.
func (t *transitions) commitWith(
	ctx context.Context, l *liveUpload, was, want Row, move quota.Move, also func(context.Context, *sqldb.Tx) error,
) (Row, outcome, error) {
	return t.writeTx(ctx, l, was, func(ctx context.Context, tx *sqldb.Tx) (Row, error) {
		if err := also(ctx, tx); err != nil {
			return Row{}, err
		}
		if err := t.ledger.Apply(ctx, tx, was.Account, move); err != nil {
			return Row{}, err
		}
		next, err := updateRow(ctx, tx, was, want)
		if err != nil {
			return Row{}, err
		}
		return next, t.emit(ctx, tx, was, next)
	})
}

// writeTx runs the transaction fn of a transition, which returns the row written over was, and
// caches that row in l. If the outcome is unknown or a concurrent change won, it invalidates l, so
// that the next attempt or request reads the database.
func (t *transitions) writeTx(ctx context.Context, l *liveUpload, was Row, fn func(context.Context, *sqldb.Tx) (Row, error)) (next Row, out outcome, err error) {
	err = t.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		next, err = fn(ctx, tx)
		return err
	})
	if out, err = t.classify(ctx, was, err); err != nil || out == retry {
		l.invalidate()
		t.sched.armRecheck(ctx, was, err)
		return Row{}, out, err
	}
	l.setRow(next)
	return next, finished, nil
}

// classify interprets the error of a transition's transaction. It returns retry if the row has
// changed: another instance won and moved the ledger, so that the error may only be a consequence.
func (t *transitions) classify(ctx context.Context, was Row, err error) (outcome, error) {
	out, err := retryIfStale(err)
	if err == nil || drive.IsKind(err, drive.Unavailable) || sqldb.MaybeWritten(err) {
		return out, err
	}
	if now, findErr := findRow(ctx, t.db, was.ID); findErr == nil && now.Gen != was.Gen {
		return retry, nil
	}
	return finished, err
}

// checkMissing interprets a missing staging during a state change: retry if another instance has
// changed the row, otherwise Gone {reason lost}.
func (t *transitions) checkMissing(ctx context.Context, l *liveUpload, row Row, cause error) (outcome, error) {
	now, err := findRow(ctx, t.db, row.ID)
	switch {
	case err != nil:
		return finished, err
	case now.Gen != row.Gen:
		l.invalidate()
		return retry, nil
	}
	return finished, drive.Wrap(cause, drive.Gone, "reason", ReasonLost)
}

// fence makes the staging refuse writes under the row's gen and below, and returns its content. A
// missing staging is no error: the content is then empty.
func (t *transitions) fence(ctx context.Context, l *liveUpload, row Row) (blob.Staged, error) {
	l.noteFenced(row.Gen)
	staged, err := t.staging.Fence(ctx, row.Ref(), row.Gen)
	if drive.IsKind(err, drive.NotFound) {
		return blob.Staged{}, nil
	}
	return staged, err
}

// fenceForReclaim closes the staging of an upload that is being reclaimed, and returns its content.
// It tolerates a full disk: the fence then lasts only as long as this process, and Remove needs no
// space.
func (t *transitions) fenceForReclaim(ctx context.Context, l *liveUpload, row Row) (blob.Staged, error) {
	staged, err := t.fence(ctx, l, row)
	if drive.IsKind(err, drive.DiskFull) {
		staged, err = t.staging.Load(ctx, row.Ref())
	}
	return staged, err
}

// reopen prepares the staging of an active row whose gen the journal refuses. It turns content of a
// failed seal back into parts and fences the gen, also in a journal that was lost and knows no gen.
func (t *transitions) reopen(ctx context.Context, row Row) error {
	err := t.staging.Unseal(ctx, row.Ref())
	if err == nil {
		_, err = t.staging.Fence(ctx, row.Ref(), row.Gen)
	}
	if drive.IsKind(err, drive.NotFound) {
		return nil // bytes lost: the next part reports that
	}
	return err
}

// checkAlive returns an error if other instances have declared this one ended: the caller must roll
// tx back. Otherwise they cannot declare that before tx ends. With a single instance it returns
// nil.
func (t *transitions) checkAlive(ctx context.Context, tx *sqldb.Tx) error {
	if t.alive == nil {
		return nil
	}
	return t.alive(ctx, tx)
}

// removeContent removes the content left by a failed seal, if any. With a shared staging it stays
// until the upload ends: see blob/caps.go. No row refers to it, because the upload never became
// done.
func (t *transitions) removeContent(ctx context.Context, id drive.UploadID) error {
	return t.store.Remove(ctx, id.String())
}

// cleanUp cancels the timers of an ended upload and removes its staging. If a crash prevents that,
// the auditor removes the staging.
func (t *transitions) cleanUp(ctx context.Context, row Row) {
	t.sched.disarm(ctx, row)
	if row.Reason == ReasonJoined {
		return // the final upload owns the bytes: see merger.removeJoined
	}
	if err := t.staging.Remove(ctx, row.Ref()); err != nil {
		t.log.WarnContext(ctx, "staged bytes of an ended upload could not be removed; the audit removes them later", "upload", row.ID, "error", err)
	}
}
