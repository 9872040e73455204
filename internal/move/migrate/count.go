package migrate

import (
	"context"

	"smartdrive/internal/engine/sqldb"
)

// countable is up to how many rows a server counts the rows of a table. It reads an index from end
// to end for that, which takes longer than a read may last where there are some ten millions.
const countable = 1_000_000

// Count is about how many rows a table has: for people to read, and to guess how long something
// takes. Of a large table a server is asked for its estimate. Nothing waits for a count that fails:
// it is 0 then, or the estimate, and whoever goes on meets what is wrong.
func Count(ctx context.Context, db *sqldb.DB, table string) int64 {
	n := estimate(ctx, db, table)
	if n <= countable {
		_ = db.QueryRow(ctx, "SELECT COUNT(*) FROM "+quote(table)).Scan(&n) // it stays what it is
	}
	return n
}

// estimate is what a server guesses; 0: it does not know, or counts quickly.
func estimate(ctx context.Context, db *sqldb.DB, table string) (n int64) {
	if db.Dialect() == sqldb.SQLite {
		return 0
	}
	_ = db.QueryRow(ctx, "SELECT COALESCE(table_rows, 0) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = ?", table).Scan(&n)
	return n
}
