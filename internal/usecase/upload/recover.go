package upload

import (
	"context"
	"fmt"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

const (
	pageSize  = 500                // rows read per page
	keepEnded = 7 * 24 * time.Hour // how long the rows of done and gone uploads are kept
)

// SuspendReclaims tells this instance that the timer queue lost its entries. Timers start no
// reclaim for an hour, so that clients can return first.
func (s *Sessions) SuspendReclaims() { s.holdoff.noteLocal() }

// SuspendAllReclaims records in the database that timers were lost. Then no instance starts a
// reclaim from a timer for an hour.
func (s *Sessions) SuspendAllReclaims(ctx context.Context) error { return s.holdoff.noteShared(ctx) }

// Recover arms the timers of every upload that has not ended; timers of interrupted seals and
// reclaims are due at once and continue them. It also removes the partial uploads of final uploads
// that have ended. The caller runs it in the background after each start and after a loss of
// timers. It is idempotent.
func (s *Sessions) Recover(ctx context.Context) error {
	for _, state := range []State{Sealing, Reclaiming, Active, Parked} {
		for after := (drive.UploadID{}); ; {
			page, err := s.pageOf(ctx, state, after)
			if err != nil {
				return fmt.Errorf("recover uploads in state %s: %w", state, err)
			}
			if err := s.sched.rearm(ctx, page); err != nil {
				return err
			}
			if len(page) < pageSize {
				break
			}
			after = page[len(page)-1].ID
		}
	}
	return s.merger.removeEnded(ctx)
}

// pageOf returns up to pageSize rows in a state, ordered by id, with ids greater than after.
func (s *Sessions) pageOf(ctx context.Context, state State, after drive.UploadID) ([]Row, error) {
	rows, err := s.DB.Query(ctx, `SELECT `+rowColumns+` FROM uploads WHERE state = ? AND id > ? ORDER BY id LIMIT ?`, state, after.String(), pageSize)
	return sqldb.Scan(rows, err, scanRow)
}

// PurgeEnded deletes the rows of uploads that ended more than 7 days ago, and expired rows of the
// table refusals, in batches. It also removes the partial uploads of final uploads that have ended.
func (s *Sessions) PurgeEnded(ctx context.Context) error {
	limit := s.clocks.retentionTime().Add(-keepEnded)
	for {
		var n, m int64
		err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "uploads", Key: "id", Where: "ended_at > 0 AND ended_at < ? AND state IN ('done', 'gone')", Args: []any{limit}, Limit: pageSize,
			}); err != nil {
				return err
			}
			m, err = s.claims.DeleteExpired(ctx, tx, s.clocks.retentionTime())
			return err
		})
		if err != nil {
			return fmt.Errorf("purge ended uploads: %w", err)
		}
		if n < pageSize && m < pageSize {
			return s.merger.removeEnded(ctx)
		}
	}
}

// DeleteAccount deletes the rows of an account's done and gone uploads in tx. The caller has ended
// all uploads of the account.
func (s *Sessions) DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := tx.Exec(ctx, `DELETE FROM uploads WHERE account_id = ? AND state IN ('done', 'gone')`, account)
	if err != nil {
		return fmt.Errorf("forget the uploads of account %s: %w", account, err)
	}
	return nil
}

// ReclaimAll reclaims all active and parked uploads of an account (zero: of all accounts) for
// maintenance, and returns how many. Uploads that are sealing continue.
func (s *Sessions) ReclaimAll(ctx context.Context, account drive.AccountID) (int, error) {
	n := 0
	for _, state := range []State{Active, Parked} {
		for after := (drive.UploadID{}); ; {
			page, err := s.pageOf(ctx, state, after)
			if err != nil {
				return n, err
			}
			for _, r := range page {
				after = r.ID
				if !account.IsZero() && r.Account != account {
					continue
				}
				reset, err := s.resetOne(ctx, r.ID)
				if err != nil {
					return n, fmt.Errorf("reset upload %s: %w", r.ID, err)
				}
				if reset {
					n++
				}
			}
			if len(page) < pageSize {
				break
			}
		}
	}
	return n, nil
}

// resetOne reclaims an upload if it is still active or parked; reset reports whether it did.
// Another instance may finish a reclaim that this one began.
func (s *Sessions) resetOne(ctx context.Context, id drive.UploadID) (reset bool, err error) {
	begun := false
	err = withStateLock(ctx, &s.table, id, func(l *liveUpload) (outcome, error) {
		row, err := s.table.load(ctx, l)
		if err != nil {
			return finished, err
		}
		if row.State != Active && row.State != Parked && (!begun || row.Reason != ReasonReset) {
			reset = false
			return finished, nil
		}
		begun, reset = true, true
		return s.reclaim(ctx, l, row, ReasonReset)
	})
	return reset, err
}
