package tree

import (
	"context"
	"fmt"
	"math"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Old versions, those that are no file's current one, have a budget of their own (N3): they may be
// small, so that no quota bounds their rows, and one file may have any number of them. old_versions
// counts them by account.

// countOld counts the version that has just become an old one, and what was dropped to it. When the
// account has as many as it may have, the oldest of the same file goes, young as it is, unless it
// is among those that are always kept; then it is TooLarge {field: versions, limit, sent}. It
// returns all that was dropped.
func (t *Tree) countOld(ctx context.Context, tx *sqldb.Tx, n Node, dropped []Version) ([]Version, error) {
	growth := 1 - int64(len(dropped))
	if growth <= 0 {
		return dropped, fewerOld(ctx, tx, n.Account, -growth)
	}
	counted, err := t.moreOld(ctx, tx, n.Account)
	if err != nil || counted {
		return dropped, err
	}
	young, err := t.dropThose(ctx, tx, n.ID, 1, "created_at < ?", drive.Time(math.MaxInt64))
	switch {
	case err != nil:
		return nil, err
	case len(young) == 0:
		return nil, drive.Fail(drive.TooLarge, "field", "versions", "reason", "versions", "limit", t.opt.MaxOldVersions, "sent", t.opt.MaxOldVersions+1)
	}
	return young, fewerOld(ctx, tx, n.Account, int64(len(young))-1)
}

// moreOld counts one more, if there may be one more.
func (t *Tree) moreOld(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) (bool, error) {
	changed, err := tx.Exec(ctx, `UPDATE old_versions SET n = n + 1 WHERE account_id = ? AND n < ?`, account, t.opt.MaxOldVersions)
	if err != nil || changed == 1 {
		return err == nil, wrap(err, "count a version of", account)
	}
	made, err := tx.InsertNew(ctx, `INSERT INTO old_versions (account_id, n) VALUES (?, 1)`, account) // the first one, or the row is full
	return made, wrap(err, "count the first old version of", account)
}

// fewerOld counts less.
func fewerOld(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, n int64) error {
	if n <= 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE old_versions SET n = CASE WHEN n > ? THEN n - ? ELSE 0 END WHERE account_id = ?`, n, n, account)
	if err != nil {
		return fmt.Errorf("count %d old versions less of account %v: %w", n, account, err)
	}
	return nil
}
