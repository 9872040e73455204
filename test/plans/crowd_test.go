package plans

import (
	"slices"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// The rows that stand for a million fit the tables as they are now, on both engines: on MySQL a
// text has no default.
func TestTheCrowdFits(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		fits(t, sqldbtest.Open(t))
	})
	t.Run("MySQL", func(t *testing.T) {
		t.Parallel()
		fits(t, openServer(t))
	})
}

func fits(t *testing.T, db *sqldb.DB) {
	t.Helper()
	populate(t, db, 1000)
	var tables []string
	for _, m := range crowded(1000) {
		if n := count(t, db, m.table); n < m.rows {
			t.Errorf("%s has %d rows, want %d", m.table, n, m.rows)
		}
		tables = append(tables, m.table)
	}
	slices.Sort(tables)
	if tables = slices.Compact(tables); len(tables) < 20 {
		t.Errorf("only %v", tables)
	}
}

func count(t *testing.T, db *sqldb.DB, table string) (n int) {
	t.Helper()
	if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
