//go:build unix

package plans

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/testkit/depth"
)

// slow is the limit of CPU time for a statement on a million rows. A complete scan takes two to ten
// times as long, an indexed read a thousandth. The load of the machine does not count.
const slow = 150 * time.Millisecond

// A plan may use an index that selects too many rows, which the planner cannot know. So the time of
// each statement is measured on a million rows, in a transaction that is rolled back.
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

// processorTime returns the CPU time of this process, which includes SQLite.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
