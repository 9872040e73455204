package files

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// PurgeAccount deletes an account's whole tree, trash included, for good: the last step but one of
// deleting a user. It is for accounts whose user is deleted and whose uploads have all ended; its
// ledger is empty then. It works in short transactions and may stop anywhere; calling it again goes
// on, and does nothing for an account that has nothing left.
func (f *Files) PurgeAccount(ctx context.Context, account drive.AccountID) error {
	// Without their rows the account's operations are over, and what they hid is deleted like the
	// rest.
	err := f.dropRows(ctx, account, "operations")
	for done := false; !done && err == nil; {
		err = f.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) error {
			p, err := f.opt.Tree.PurgeAll(ctx, tx, account, f.opt.Batch)
			if done = p.Done; err != nil {
				return err
			}
			return f.drop(ctx, tx, account, p.Versions)
		})
	}
	if err != nil {
		return fmt.Errorf("purge account %v: %w", account, err)
	}
	return nil
}

// dropRows deletes the rows of an account from tables of which none refers to another.
func (f *Files) dropRows(ctx context.Context, account drive.AccountID, tables ...string) error {
	return f.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, table := range tables {
			if _, err := tx.Exec(ctx, "DELETE FROM "+table+" WHERE account_id = ?", account); err != nil {
				return fmt.Errorf("drop %s: %w", table, err)
			}
		}
		return nil
	})
}
