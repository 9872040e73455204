package upload

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

const (
	pageSize  = 500                // rows a page: short enough for one read, long enough to be few
	keepEnded = 7 * 24 * time.Hour // how long done and gone uploads can be asked for
)

// LostTimers tells Sessions that the timer queue has forgotten what it held: no timer starts a
// reclaim for a while.
func (s *Sessions) LostTimers() { s.holdoff.lost() }

// NoteLoss is LostTimers for all instances.
func (s *Sessions) NoteLoss(ctx context.Context) error { return s.holdoff.note(ctx) }

// Recover arms the timers of every upload that has not ended, and makes seals and reclaims that a
// crash cut off go on. It runs in the background after a start, and after the timers were lost.
// Running it twice is harmless.
func (s *Sessions) Recover(ctx context.Context) error {
	for _, state := range []State{Sealing, Reclaiming, Active, Parked} {
		for after := (drive.UploadID{}); ; {
			page, err := s.pageOf(ctx, state, after)
			if err != nil {
				return fmt.Errorf("recover uploads in state %s: %w", state, err)
			}
			if err := s.sched.armAgain(ctx, page); err != nil {
				return err
			}
			if len(page) < pageSize {
				break
			}
			after = page[len(page)-1].ID
		}
	}
	return s.joins.removeEnded(ctx)
}

func (s *Sessions) pageOf(ctx context.Context, state State, after drive.UploadID) ([]Row, error) {
	rows, err := s.DB.Query(ctx, `SELECT `+rowColumns+` FROM uploads WHERE state = ? AND id > ? ORDER BY id LIMIT ?`, state, after.String(), pageSize)
	return sqldb.Scan(rows, err, scanRow)
}

// PurgeEnded deletes rows of uploads that ended more than 7 days ago, and refusals that have run
// out, in batches.
func (s *Sessions) PurgeEnded(ctx context.Context) error {
	limit := s.clocks.kept().Add(-keepEnded)
	for {
		var n, m int64
		err := s.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			if n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "uploads", Key: "id", Where: "ended_at > 0 AND ended_at < ? AND state IN ('done', 'gone')", Args: []any{limit}, Limit: pageSize,
			}); err != nil {
				return err
			}
			m, err = s.claims.Forget(ctx, tx, s.clocks.kept())
			return err
		})
		if err != nil {
			return fmt.Errorf("purge ended uploads: %w", err)
		}
		if n < pageSize && m < pageSize {
			return s.joins.removeEnded(ctx)
		}
	}
}

// Forget deletes the rows of an account's uploads, which have all ended.
func (s *Sessions) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	_, err := tx.Exec(ctx, `DELETE FROM uploads WHERE account_id = ? AND state IN ('done', 'gone')`, account)
	if err != nil {
		return fmt.Errorf("forget the uploads of account %s: %w", account, err)
	}
	return nil
}

// Reset reclaims all open uploads of an account, or of all accounts when it is zero: the
// maintenance reset. Uploads that are sealing are left to end. It returns how many were reclaimed.
func (s *Sessions) Reset(ctx context.Context, account drive.AccountID) (int, error) {
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

// resetOne reclaims an upload unless it has gone on meanwhile. What it has begun another instance
// may finish.
func (s *Sessions) resetOne(ctx context.Context, id drive.UploadID) (reset bool, err error) {
	begun := false
	err = inTurn(ctx, &s.table, id, func(l *live) (outcome, error) {
		row, err := s.table.load(ctx, l)
		if err != nil {
			return settled, err
		}
		if row.State != Active && row.State != Parked && (!begun || row.Reason != ReasonReset) {
			reset = false
			return settled, nil
		}
		begun, reset = true, true
		return s.reclaim(ctx, l, row, ReasonReset)
	})
	return reset, err
}
