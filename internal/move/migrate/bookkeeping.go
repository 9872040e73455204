package migrate

import (
	"context"
	"fmt"
	"slices"

	"example.org/smartdrive/internal/engine/sqldb"
)

// bookkeeping lists the tables migration_* of a side without prefix, except migration_side.
var bookkeeping = []string{"changes", "versions", "progress", "acks", "waits", "checksums", "mismatches", "explained", "notes"}

// largeTables lists the bookkeeping tables that may have millions of rows.
var largeTables = []string{"changes", "versions", "mismatches"}

const clearRows = 5000 // rows per transaction

// clearLargeTables empties the large bookkeeping tables in short transactions. On SQLite it does
// nothing, because emptying a whole table is fast there. may, if not nil, runs first in each
// transaction; its error stops the deletion.
func clearLargeTables(ctx context.Context, s Side, may func(context.Context, *sqldb.Tx) error) error {
	if s.DB.Dialect() == sqldb.SQLite {
		return nil
	}
	for _, t := range largeTables {
		for n := int64(clearRows); n == clearRows; {
			err := s.Unchecked.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) (err error) {
				if may != nil {
					if err := may(ctx, tx); err != nil {
						return err
					}
				}
				n, err = tx.Exec(ctx, "DELETE FROM migration_"+t+" LIMIT ?", clearRows)
				return err
			})
			if err != nil {
				return fmt.Errorf("forget what the migration has noted: %w", err)
			}
		}
	}
	return nil
}

// clearBookkeeping empties the bookkeeping tables of a side, the large ones first and in several
// transactions, its row of migration_side in the last. After an error it may be called again.
func clearBookkeeping(ctx context.Context, s Side) error {
	if err := clearLargeTables(ctx, s, nil); err != nil {
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
