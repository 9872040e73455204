package claim

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/engine/sqldb"
)

// A challenge counts when it is issued, not when it is answered; otherwise a user could retry until
// the challenge suits. A right answer removes the count. It counts per content, whatever digest was
// claimed and for whatever upload.

// questionKey returns the key of a content in the table refusals: its BLAKE3 digest, which outlives
// the row.
func questionKey(b content.Blob) string { return "blake3:" + b.Sum.String() }

// wasAsked reports whether table refusals has an unexpired row for this user and content: the user
// was challenged about it and has not answered rightly. It fails only if the query does.
func (d *Claims) wasAsked(ctx context.Context, q sqldb.Querier, user drive.UserID, b content.Blob) (bool, error) {
	var n int
	err := q.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM refusals WHERE user_id = ? AND digest = ? AND until > ?)`,
		user, questionKey(b), d.opt.Now()).Scan(&n)
	if err != nil {
		return false, fmt.Errorf("look whether user %s was asked about blob %s: %w", user, b.ID, err)
	}
	return n == 1, nil
}

// CountChallenge records a challenge in the transaction that stores it in its upload's row. It
// returns false if a concurrent challenge about the same content was counted first, or the user's
// budget is spent; the caller must not issue the challenge then.
func (d *Claims) CountChallenge(ctx context.Context, tx *sqldb.Tx, user drive.UserID, asks []content.Blob) (bool, error) {
	now := d.opt.Now()
	until := now.Add(countTime)
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

// spent returns the total size of the contents that count against the user: challenges that are
// open, or were answered wrongly or not at all.
func (d *Claims) spent(ctx context.Context, q sqldb.Querier, user drive.UserID) (sum drive.ByteSize, err error) {
	err = q.QueryRow(ctx, `SELECT COALESCE(SUM(bytes), 0) FROM refusals WHERE user_id = ? AND until > ?`, user, d.opt.Now()).Scan(&sum)
	if err != nil {
		return 0, fmt.Errorf("sum what user %s was asked about: %w", user, err)
	}
	return sum, nil
}

// budget returns the largest total of spent: the bytes that the server reads per day for a user's
// wrong answers.
func (d *Claims) budget() drive.ByteSize { return max(d.opt.MaxSize, minBudget) }

// UncountChallenge removes the count of a content that is being linked, because the user proved to
// have it. NotFound if the content is gone.
func (d *Claims) UncountChallenge(ctx context.Context, tx *sqldb.Tx, user drive.UserID, id drive.BlobID) error {
	b, err := d.content.Find(ctx, tx, id)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `DELETE FROM refusals WHERE user_id = ? AND digest = ?`, user, questionKey(b)); err != nil {
		return fmt.Errorf("give back a question to user %s: %w", user, err)
	}
	return nil
}

// DeleteExpired deletes the counts that have expired by the time at, and returns how many.
func (d *Claims) DeleteExpired(ctx context.Context, tx *sqldb.Tx, at drive.Time) (int64, error) {
	return tx.Exec(ctx, `DELETE FROM refusals WHERE until < ?`, at)
}
