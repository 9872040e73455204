package migrate

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/engine/sqldb"
)

// bookkeeping are the tables migration_... of a side, but for its row.
var bookkeeping = []string{"changes", "versions", "progress", "acks", "waits", "checksums", "mismatches", "explained", "notes"}

// grown are those of them that may have millions of rows: one for each that has changed, waits or
// differs.
var grown = []string{"changes", "versions", "mismatches"}

const forgetRows = 5000 // of one transaction

// forgetGrown empties the large tables of the bookkeeping of a side. MySQL takes longer for
// millions of rows than a transaction may last; SQLite gives up the pages of a whole table at once,
// in the transaction that empties the others. may is asked in each transaction; nil: it may.
func forgetGrown(ctx context.Context, s Side, may func(context.Context, *sqldb.Tx) error) error {
	if s.DB.Dialect() == sqldb.SQLite {
		return nil
	}
	for _, t := range grown {
		for n := int64(forgetRows); n == forgetRows; {
			err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
				if may != nil {
					if err := may(ctx, tx); err != nil {
						return err
					}
				}
				n, err = tx.Exec(ctx, "DELETE FROM migration_"+t+" LIMIT ?", forgetRows)
				return err
			})
			if err != nil {
				return fmt.Errorf("forget what the migration has noted: %w", err)
			}
		}
	}
	return nil
}

// forgetAll empties the bookkeeping of a side, its row last.
func forgetAll(ctx context.Context, s Side) error {
	if err := forgetGrown(ctx, s, nil); err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, t := range append(slices.Clone(bookkeeping), "side") {
			if _, err := tx.Exec(ctx, "DELETE FROM migration_"+t); err != nil {
				return fmt.Errorf("forget the migration: %w", err)
			}
		}
		return nil
	})
}
