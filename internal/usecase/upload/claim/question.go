package claim

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/engine/sqldb"
)

// A question about a content counts when it is asked, not when it is answered: else somebody asks
// until the question suits them. A right answer gives it back. It counts by the content itself,
// whatever digest was claimed and for whatever upload.

// questionKey is what refusals know a content by: its canonical digest, which outlives the row.
func questionKey(b content.Blob) string { return "blake3:" + b.Sum.String() }

// wasAsked reports whether a question about the content counts against the user.
func (d *Desk) wasAsked(ctx context.Context, q sqldb.Querier, user drive.UserID, b content.Blob) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM refusals WHERE user_id = ? AND digest = ? AND until > ?)`,
		user, questionKey(b), d.opt.Now()).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look whether user %s was asked about blob %s: %w", user, b.ID, err)
	}
	return n == 1, nil
}

// Count counts a question in the transaction that writes it into its upload's row.
// It reports false when the user has been asked since the question was made: of two that come at
// once, one is asked.
func (d *Desk) Count(ctx context.Context, tx *sqldb.Tx, user drive.UserID, asks []content.Blob) (bool, error) {
	now := d.opt.Now()
	until := now.Add(refusalTime)
	for _, b := range asks {
		again, err := tx.Exec(ctx, `UPDATE refusals SET until = ?, bytes = ? WHERE user_id = ? AND digest = ? AND until <= ?`, until, b.Size, user, questionKey(b), now)
		counted := again == 1
		if err == nil && !counted {
			counted, err = tx.InsertNew(ctx, `INSERT INTO refusals (user_id, digest, until, bytes) VALUES (?, ?, ?, ?)`, user, questionKey(b), until, b.Size)
		}
		if err != nil {
			return false, fmt.Errorf("count a question to user %s: %w", user, err)
		}
		if !counted {
			return false, nil
		}
	}
	spent, err := d.spent(ctx, tx, user)
	return spent <= d.budget(), err
}

// spent sums the contents that count against the user: questions that are open, and those that were
// answered wrongly or not at all.
func (d *Desk) spent(ctx context.Context, q sqldb.Querier, user drive.UserID) (sum drive.ByteSize, err error) {
	err = q.QueryRow(ctx, `SELECT COALESCE(SUM(bytes), 0) FROM refusals WHERE user_id = ? AND until > ?`, user, d.opt.Now()).Scan(&sum)
	if err != nil {
		return 0, fmt.Errorf("sum what user %s was asked about: %w", user, err)
	}
	return sum, nil
}

// budget bounds spent: the server reads no more in a day for the wrong answers of a user.
func (d *Desk) budget() drive.ByteSize { return max(d.opt.Max, leastBudget) }

// GiveBack uncounts the question about a content that is being linked to: who has it all
// may be asked again.
func (d *Desk) GiveBack(ctx context.Context, tx *sqldb.Tx, user drive.UserID, id drive.BlobID) error {
	b, err := d.content.Find(ctx, tx, id)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM refusals WHERE user_id = ? AND digest = ?`, user, questionKey(b)); err != nil {
		return fmt.Errorf("give back a question to user %s: %w", user, err)
	}
	return nil
}

// Forget deletes what counts no longer at a time, and returns how much that was.
func (d *Desk) Forget(ctx context.Context, tx *sqldb.Tx, at drive.Time) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM refusals WHERE until < ?`, at)
}
