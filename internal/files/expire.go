package files

import (
	"context"
	"fmt"
	"time"

	"smartdrive/internal/drive"
	"smartdrive/internal/sqldb"
)

// How long things are kept that nobody configures.
const (
	tombstoneKeep = 90 * 24 * time.Hour // a sync client that was away longer reads everything again
	operationKeep = 7 * 24 * time.Hour  // after its end
)

// Expired counts what PurgeExpired did.
type Expired struct {
	Trees      int   // accounts whose trash held something that was old enough
	Versions   int64 // old versions dropped
	Tombstones int64
	Operations int64
}

// expirePage is how many accounts or files are looked at between two reads.
const expirePage = 200

// PurgeExpired deletes what has been kept long enough: trash (Options.TrashKeep), versions that are neither among the last
// nor young, tombstones (90 days) and ended operations (7 days). It works in short transactions and may stop anywhere.
func (f *Files) PurgeExpired(ctx context.Context) (out Expired, err error) {
	for after := (drive.AccountID{}); ; {
		accounts, err := f.opt.Tree.Accounts(ctx, f.opt.DB, after, expirePage)
		if err != nil {
			return out, fmt.Errorf("list the trees: %w", err)
		}
		if len(accounts) == 0 {
			break
		}
		for _, account := range accounts {
			if err := f.expireAccount(ctx, account, &out); err != nil {
				return out, fmt.Errorf("purge what is old of account %v: %w", account, err)
			}
			after = account
		}
	}
	if err := f.expireVersions(ctx, &out); err != nil {
		return out, fmt.Errorf("drop old versions: %w", err)
	}
	return out, f.expireOperations(ctx, &out)
}

func (f *Files) expireOperations(ctx context.Context, out *Expired) error {
	for n := int64(maxBatch); n == maxBatch; out.Operations += n {
		err := f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = tx.DeleteBatch(ctx, sqldb.Batch{
				Table: "operations", Key: "id", Where: "state IN ('done', 'failed') AND updated_at < ?",
				Args: []any{f.kept().Add(-operationKeep)}, Limit: maxBatch,
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("drop ended operations: %w", err)
		}
	}
	return nil
}

func (f *Files) expireAccount(ctx context.Context, account drive.AccountID, out *Expired) error {
	before := f.kept().Add(-f.opt.TrashKeep)
	old, err := f.opt.Tree.ListTrashedBefore(ctx, f.opt.DB, account, before, 1)
	if err != nil {
		return err
	}
	if len(old) > 0 {
		out.Trees++
		if _, err := f.emptyTrash(ctx, drive.Who{Account: account}, before); err != nil {
			return err
		}
	}
	for n := int64(1); n > 0; out.Tombstones += n {
		if err := f.write(ctx, account, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = f.opt.Tree.Forget(ctx, tx, account, f.kept().Add(-tombstoneKeep), f.opt.Batch)
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

func (f *Files) expireVersions(ctx context.Context, out *Expired) error {
	for after := (drive.NodeID{}); ; {
		full, err := f.opt.Tree.ListOverfull(ctx, f.opt.DB, after, expirePage)
		if err != nil || len(full) == 0 {
			return err
		}
		for _, n := range full {
			for dropped := 1; dropped > 0; out.Versions += int64(dropped) {
				if err := f.write(ctx, n.Account, func(ctx context.Context, tx *sqldb.Tx) error {
					gone, err := f.opt.Tree.DropVersions(ctx, tx, n, f.opt.Batch)
					if dropped = len(gone); err != nil {
						return err
					}
					return f.drop(ctx, tx, n.Account, gone)
				}); err != nil {
					return err
				}
			}
			after = n.ID
		}
	}
}
