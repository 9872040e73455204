package tree

import (
	"context"
	"fmt"
	"math"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Old versions, those that are not a file's current one, have their own limit per account (N3):
// because they may be small, the quota does not bound their number. old_versions counts them by
// account.

// countOldVersion counts the version of n that has just been superseded, less those dropped. At the
// limit it drops the oldest version of the same file, regardless of its age. If all of the file's
// versions are protected by KeepVersions, it fails with TooLarge {field: versions, limit, sent}. It
// returns all dropped versions.
func (t *Tree) countOldVersion(ctx context.Context, tx *sqldb.Tx, n Node, dropped []Version) ([]Version, error) {
	growth := 1 - int64(len(dropped))
	if growth <= 0 {
		return dropped, subtractOldVersions(ctx, tx, n.Account, -growth)
	}
	counted, err := t.addOldVersion(ctx, tx, n.Account)
	if err != nil || counted {
		return dropped, err
	}
	young, err := t.dropVersionsWhere(ctx, tx, n.ID, 1, "created_at < ?", drive.Time(math.MaxInt64))
	switch {
	case err != nil:
		return nil, err
	case len(young) == 0:
		return nil, drive.Fail(drive.TooLarge, "field", "versions", "reason", "versions", "limit", t.opt.MaxOldVersions, "sent", t.opt.MaxOldVersions+1)
	}
	return young, subtractOldVersions(ctx, tx, n.Account, int64(len(young))-1)
}

// addOldVersion adds one to the account's stored count of old versions and returns true. If the
// count is at MaxOldVersions it returns false without an error and changes nothing; the caller must
// drop a version instead.
func (t *Tree) addOldVersion(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) (bool, error) {
	changed, err := tx.Exec(ctx, `UPDATE old_versions SET n = n + 1 WHERE account_id = ? AND n < ?`, account, t.opt.MaxOldVersions)
	if err != nil || changed == 1 {
		return err == nil, wrap(err, "count a version of", account)
	}
	made, err := tx.InsertNew(ctx, `INSERT INTO old_versions (account_id, n) VALUES (?, 1)`, account) // no row yet, or the limit is reached
	return made, wrap(err, "count the first old version of", account)
}

// subtractOldVersions subtracts n from the account's stored count of old versions, which does not
// go below zero. It does nothing if n is not positive or the account has no count.
func subtractOldVersions(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, n int64) error {
	if n <= 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE old_versions SET n = CASE WHEN n > ? THEN n - ? ELSE 0 END WHERE account_id = ?`, n, n, account)
	if err != nil {
		return fmt.Errorf("count %d old versions less of account %v: %w", n, account, err)
	}
	return nil
}
