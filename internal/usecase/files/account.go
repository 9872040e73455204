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
func (e *Expiry) PurgeAccount(ctx context.Context, account drive.AccountID) error {
	// Without their rows the account's operations are over, and what they hid is deleted like the
	// rest.
	err := e.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM operations WHERE account_id = ?", account)
		return err
	})
	for done := false; !done && err == nil; {
		err = e.write(ctx, drive.Who{Account: account}, func(ctx context.Context, tx *sqldb.Tx) error {
			p, err := e.tree.PurgeAll(ctx, tx, account, e.batch)
			if done = p.Done; err != nil {
				return err
			}
			return e.drop(ctx, tx, account, p.Versions)
		})
	}
	if err != nil {
		return fmt.Errorf("purge account %v: %w", account, err)
	}
	return nil
}
