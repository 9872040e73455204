package upload

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/sqldb"
)

// wakeStep is the admitStep for an upload that cannot accept parts yet: it is not cached or parked,
// the staging refuses its gen, or the caller's right or parts must be checked. It runs
// Sessions.makeReady and returns its error.
func wakeStep(ctx context.Context, s *receiver, l *liveUpload, who drive.Who) error {
	return s.makeReady(ctx, who, l.id)
}

// growStep is the admitStep that enlarges the reservation of an upload of unknown size to at least
// need bytes in total. It fails with Quota or DiskFull if they do not fit. After a concurrent
// change it returns nil without having enlarged it: admit checks the reservation again.
func (r *receiver) growStep(ctx context.Context, l *liveUpload, need drive.ByteSize) error {
	_, err := r.grow(ctx, l, need)
	return err
}

// grow enlarges the reservation of an upload of unknown size to at least need bytes in total. Each
// step doubles the reservation and is cut to the free quota. It fails with Quota or DiskFull only
// if need itself does not fit. It returns retry if the upload is not active or its row has changed.
// It does not acquire the state lock, whose holder may be waiting for the growing part; updateRow
// compares the reservation too, so that no transition overwrites a growth.
func (r *receiver) grow(ctx context.Context, l *liveUpload, need drive.ByteSize) (outcome, error) {
	l.table.order.acquire(l.id, rankGrowing)
	defer l.table.order.release(l.id, rankGrowing)
	l.growing.Lock()
	defer l.growing.Unlock()
	l.mu.Lock()
	row, limit := l.row, l.limit
	l.mu.Unlock()
	if row.State != Active {
		return retry, nil
	}
	if need <= limit {
		return finished, nil // a concurrent part has enlarged it
	}
	least := need - limit
	step := max(least, min(maxGrant, max(firstGrant, row.Reserved)))
	step, err := r.disk.ReserveSome(ctx, row.Account, step, least)
	if err != nil {
		return finished, err
	}
	defer r.disk.Release(row.Account, step) // from here on the liveUpload's own promise counts
	granted, out, err := r.grant(ctx, row, step, least)
	if err != nil || out == retry {
		if !drive.IsKind(err, drive.Quota) {
			l.invalidate() // the reservation is unknown
		}
		return out, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.row.Gen == row.Gen && (r.shared || l.row.Reserved == row.Reserved) { // otherwise it was invalidated and read again
		l.row.Reserved += granted
		l.limit += granted
		l.promiseLocked()
	}
	return finished, nil
}

// grant reserves step bytes of the account's quota in the ledger, or fewer if the quota is short,
// and adds them to the row's reservation. It returns the number granted. It fails with Quota if
// less than least is free, and returns retry, with nothing granted, if the row has changed.
func (r *receiver) grant(ctx context.Context, row Row, step, least drive.ByteSize) (granted drive.ByteSize, out outcome, err error) {
	err = r.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if granted, err = r.ledger.Grant(ctx, tx, row.Account, step, least); err != nil {
			return err
		}
		query, args := `UPDATE uploads SET reserved = reserved + ? WHERE id = ? AND state = ? AND gen = ?`, []any{granted, row.ID, Active, row.Gen}
		if !r.shared { // other instances may have added theirs
			query, args = query+` AND reserved = ?`, append(args, row.Reserved)
		}
		n, err := tx.Exec(ctx, query, args...)
		if err == nil && n == 0 {
			err = errStale
		}
		return err
	})
	out, err = retryIfStale(err)
	return granted, out, err
}

// retryIfMoved handles the error of a part that was checked against the cached row. If err is
// PartRange or PartSize and the row in the database has a new gen, it invalidates the cache and
// returns retry, so that the part is checked against the current row. Otherwise it returns err.
func (r *receiver) retryIfMoved(ctx context.Context, l *liveUpload, err error) (outcome, error) {
	if !drive.IsKind(err, drive.PartRange) && !drive.IsKind(err, drive.PartSize) {
		return finished, err
	}
	l.mu.Lock()
	was := l.row
	l.mu.Unlock()
	if now, findErr := findRow(ctx, r.db, l.id); findErr != nil || now.Gen == was.Gen {
		return finished, err
	}
	l.invalidate()
	return retry, nil
}

// alreadyStaged handles a part that the journal already has, as have. It reads the body and returns
// PartDiffers unless it has the same bytes. If the bytes of the stored part were never hashed
// (have.Unread), it drops that part and returns retry, so that the body is stored instead; if some
// of the body was read before, it returns errBusy. Only the journal decides that a part is stored,
// because another instance may have dropped a cached part.
func (r *receiver) alreadyStaged(ctx context.Context, l *liveUpload, row Row, in *touchReader, body blob.Body, have blob.Part) (outcome, error) {
	if have.Unread { // content unknown: accept the new body
		if err := r.staging.Drop(ctx, row.Ref(), row.Gen, have.N); err != nil {
			return r.handleWriteError(ctx, l, row, err, in.begun)
		}
		return retryUnlessRead(in.begun)
	}
	l.addRemotePart(have, false)
	return finished, busyIfSuperseded(ctx, compare(body, have))
}

// retryUnlessRead returns retry if nothing of the body was read (begun is false). Otherwise the
// attempt cannot be repeated, and it returns errBusy, so that the client sends the body again.
func retryUnlessRead(begun bool) (outcome, error) {
	if begun {
		return finished, errBusy()
	}
	return retry, nil
}

// stagingGone handles a missing staging during a write to the upload whose cached row was was. If
// the upload has ended, it returns the error for its state. If the row has a new gen, it returns
// retry, or errBusy if part of the body was read (begun). Otherwise the bytes were removed from
// outside: Gone {reason lost}. It always invalidates the cache.
func (r *receiver) stagingGone(ctx context.Context, l *liveUpload, was Row, cause error, begun bool) (outcome, error) {
	l.invalidate()
	row, err := findRow(ctx, r.db, was.ID)
	switch {
	case err != nil:
		return finished, err
	case row.State != Active && row.State != Parked:
		return finished, row.ended()
	case row.Gen == was.Gen:
		return finished, drive.Wrap(cause, drive.Gone, "reason", ReasonLost)
	}
	return retryUnlessRead(begun)
}
