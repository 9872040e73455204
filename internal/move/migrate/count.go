package migrate

import (
	"context"

	"example.org/smartdrive/internal/engine/sqldb"
)

// maxExactCount is the row count up to which Count counts exactly. Counting scans a whole index,
// which exceeds the timeout of a read above some ten million rows.
const maxExactCount = 1_000_000

// Count returns the approximate number of rows of a table, for display and time estimates. For
// large tables it returns the server's estimate. On an error it returns the estimate or 0.
func Count(ctx context.Context, db *sqldb.DB, table string) int64 {
	n := estimate(ctx, db, table)
	if n <= maxExactCount {
		_ = db.QueryRow(ctx, "SELECT COUNT(*) FROM "+quote(table)).Scan(&n) // on an error the estimate stays
	}
	return n
}

// estimate returns the row count that a MySQL server estimates; 0 on an error, and for SQLite,
// where Count counts.
func estimate(ctx context.Context, db *sqldb.DB, table string) (n int64) {
	if db.Dialect() == sqldb.SQLite {
		return 0
	}
	_ = db.QueryRow(ctx, "SELECT COALESCE(table_rows, 0) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", table).Scan(&n)
	return n
}
