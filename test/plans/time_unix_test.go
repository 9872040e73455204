//go:build unix

package plans

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"smartdrive/internal/engine/sqldb"
	"smartdrive/internal/engine/sqldb/sqldbtest"
	"smartdrive/internal/testkit/depth"
)

// slow is how much processor time a statement may take on a million rows: one that reads them all
// takes two to ten times as much, what is quick a thousandth. How busy the machine is does not
// count.
const slow = 150 * time.Millisecond

// An index may be used and not choose: what the planner cannot know is measured with rows. Each
// statement is made within a transaction that is taken back.
func TestStatementsAreQuickOnAMillionRows(t *testing.T) {
	depth.Deep(t) // and not parallel: what others do would count
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
		began := processorTime(t)
		rows, err := tx.Query(ctx, s.Text, arguments(s)...)
		_, err = sqldb.Scan(rows, err, func(*struct{}, func(...any) error) error { return nil })
		took = processorTime(t) - began
		return errors.Join(err, errBack)
	})
	if !errors.Is(err, errBack) {
		t.Errorf("%s: %v", s.From, err)
	}
	return took
}

// processorTime is what this process has used: SQLite is part of it.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
