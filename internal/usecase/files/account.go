package files

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// PurgeAccount deletes all nodes and versions of an account permanently, trash included. The caller
// has deleted the account's user and ended all of its uploads; afterwards the ledger is empty. The
// work runs in batches of one short transaction each. After an error or a crash, call PurgeAccount
// again to continue; on an empty account it does nothing.
func (e *Expiry) PurgeAccount(ctx context.Context, account drive.AccountID) error {
	// Deleting the rows ends the account's operations. Nodes that they hid are purged below.
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
