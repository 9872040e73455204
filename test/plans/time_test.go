package plans

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"smartdrive/internal/depth"
	"smartdrive/internal/sqldb"
	"smartdrive/internal/sqldb/sqldbtest"
)

// slow is how long a statement may take on a million rows. It is meant for one that reads them all,
// which takes ten times as long; what is quick takes a thousandth.
const slow = 150 * time.Millisecond

// An index may be used and not choose: what the planner cannot know is measured with rows. Each
// statement is made within a transaction that is taken back.
func TestStatementsAreQuickOnAMillionRows(t *testing.T) {
	t.Parallel()
	depth.Deep(t)
	statements := recordedStatements(t, sqldb.SQLite)
	db := sqldbtest.Open(t)
	populate(t, db, million)
	known, plans := readReasons(t, "slow.txt"), readReasons(t, "sqlite.txt")
	for _, s := range statements {
		if plans.why[sqldbtest.Normal(s.Text)] != "" || plans.why["@"+s.From] != "" {
			continue // it reads much, and there is a reason
		}
		best := time.Hour
		for range 3 { // the first one reads from the disk
			best = min(best, timeOf(t, db, s))
		}
		if best < slow {
			continue
		}
		known.judge(t, s, best.Round(time.Millisecond).String())
	}
	known.unused(t)
}

var errBack = errors.New("taken back")

func timeOf(t *testing.T, db *sqldb.DB, s statement) time.Duration {
	t.Helper()
	var took time.Duration
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		began := time.Now()
		rows, err := tx.Query(ctx, s.Text, arguments(s)...)
		_, err = sqldb.Scan(rows, err, func(*struct{}, func(...any) error) error { return nil })
		took = time.Since(began)
		return errors.Join(err, errBack)
	})
	if !errors.Is(err, errBack) {
		t.Errorf("%s: %v", s.From, err)
	}
	return took
}

// The rows that stand for a million fit the tables as they are now.
func TestTheCrowdFits(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
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
