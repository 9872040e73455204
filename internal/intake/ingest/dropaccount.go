package ingest

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Forget deletes all rows of an account that is being purged. First it ends the account's bundles,
// so that their workers lose them. It works in short transactions; after an error or an
// interruption call it again. The caller must have deleted the account's tree before, or the
// reconciler would record the bundles again.
func (in *Intake) Forget(ctx context.Context, account drive.AccountID) error {
	err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, drop := range []string{
			`UPDATE bundles SET epoch = epoch + 1, state = 'rejected', rejected = declared - accepted - duplicates - conflicts
				WHERE account_id = ? AND state IN ('sealed', 'running')`,
			"DELETE FROM sources WHERE account_id = ?",
		} {
			if _, err := tx.Exec(ctx, drop, account); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("end the bundles of account %s: %w", account, err)
	}
	for _, table := range []string{"document_conflicts", "documents"} {
		if err := in.dropOwn(ctx, table, account); err != nil {
			return err
		}
	}
	for {
		b, err := in.find(ctx, in.opt.DB, "WHERE account_id = ? ORDER BY id LIMIT 1", account)
		if drive.IsKind(err, drive.NotFound) {
			return nil
		}
		if err == nil {
			err = in.drop(ctx, b.ID)
		}
		if err != nil {
			return fmt.Errorf("forget bundle: %w", err)
		}
	}
}

// dropOwn deletes all rows of an account from a table, in batches. It fails with an error of the
// database and may be repeated.
func (in *Intake) dropOwn(ctx context.Context, table string, account drive.AccountID) error {
	for n := int64(insertBatch); n == insertBatch; {
		err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{Table: table, Key: "id", Where: "account_id = ?", Args: []any{account}, Limit: insertBatch})
			return err
		})
		if err != nil {
			return fmt.Errorf("drop rows of %s: %w", table, err)
		}
	}
	return nil
}

// drop deletes the rows of a bundle; the row in bundles goes last, so that drop can be repeated. It
// fails with an error of the database.
func (in *Intake) drop(ctx context.Context, id drive.BundleID) error {
	for _, table := range []string{"bundle_members", "bundle_records"} {
		for n := int64(insertBatch); n == insertBatch; {
			err := in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
				n, err = dropSome(ctx, tx, table, id)
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return in.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM bundles WHERE id = ?", id)
		return err
	})
}
