package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// group makes n writes share one commit: it blocks the writer until all of them wait, and calls
// armed meanwhile.
func group(t *testing.T, db *sqldb.DB, n int, armed func(), fn func(i int) func(context.Context, *sqldb.Tx) error) []error {
	t.Helper()
	hold, entered := make(chan struct{}), make(chan struct{})
	errs := make([]error, n)
	var all sync.WaitGroup
	all.Go(func() {
		_ = db.Write(t.Context(), func(context.Context, *sqldb.Tx) error { close(entered); <-hold; return errors.New("only a hold") })
	})
	<-entered
	armed()
	for i := range errs {
		all.Go(func() { errs[i] = db.Write(t.Context(), fn(i)) })
	}
	close(hold)
	all.Wait()
	return errs
}

// oneByOne runs each write in its own commit.
func oneByOne(t *testing.T, db *sqldb.DB, n int, armed func(), fn func(i int) func(context.Context, *sqldb.Tx) error) []error {
	t.Helper()
	armed()
	errs := make([]error, n)
	for i := range errs {
		errs[i] = db.Write(t.Context(), fn(i))
	}
	return errs
}

// TestFaultAtEveryCall makes each kind of call fail, once without reaching the engine and once with
// a lost reply. After a success the row must exist; after another error than Unavailable it must
// not. Later writes must succeed.
func TestFaultAtEveryCall(t *testing.T) {
	t.Parallel()
	calls := []sqldbtest.Call{
		sqldbtest.Begin, sqldbtest.Savepoint, sqldbtest.Prepare, sqldbtest.Exec, sqldbtest.Commit, sqldbtest.Rollback,
	}
	for _, call := range calls {
		for n := 1; n <= 5; n++ {
			for _, lost := range []bool{false, true} {
				for _, grouped := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s %d lost=%v grouped=%v", call, n, lost, grouped), func(t *testing.T) {
						t.Parallel()
						faultAt(t, call, n, lost, grouped)
					})
				}
			}
		}
	}
}

func faultAt(t *testing.T, call sqldbtest.Call, n int, lost, grouped bool) {
	var faults sqldbtest.Faults
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)})
	arm, run := faults.Fail, oneByOne
	if lost {
		arm = faults.LoseReply
	}
	if grouped {
		run = group
	}
	errs := run(t, db, 6, func() { arm(call, n, nil) }, func(i int) func(context.Context, *sqldb.Tx) error {
		return func(ctx context.Context, tx *sqldb.Tx) error {
			if err := put(fmt.Sprint(i), "x")(ctx, tx); err != nil || i%3 > 0 {
				return err
			}
			return errors.New("no")
		}
	})
	for i, err := range errs {
		_, there := get(t, db, fmt.Sprint(i))
		switch {
		case err == nil && !there:
			t.Errorf("write %d succeeded and left nothing", i)
		case err != nil && there && !drive.IsKind(err, drive.Unavailable):
			t.Errorf("write %d failed with %v and left its row", i, err)
		case there && i%3 == 0:
			t.Errorf("write %d rolled itself back and left its row", i)
		}
	}
	faults.Clear()
	if err := db.Write(t.Context(), put("after", "x")); err != nil {
		t.Errorf("the fault is gone, and still: %v", err)
	}
}

func TestFullDiskReturnsDiskFull(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	gaveUp := 0
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector, OnFull: func() { gaveUp++ }})
	faults.Fail(sqldbtest.Commit, 1, drive.Fail(drive.DiskFull))
	if err := db.Write(t.Context(), put("a", "1")); !drive.IsKind(err, drive.DiskFull) {
		t.Fatalf("got %v", err)
	}
	if gaveUp != 1 && !sqldbtest.OnMySQL() { // whose disk is elsewhere
		t.Errorf("the ballast was given up %d times", gaveUp)
	}
	if err := db.Write(t.Context(), put("a", "1")); err != nil {
		t.Fatal(err)
	}
}

// TestEnginesOwnFullDisk fills the database itself, because an injected fault cannot show that its
// error codes are understood.
func TestEnginesOwnFullDisk(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "a server's disk cannot be filled from here")
	gaveUp := 0
	db := sqldbtest.OpenWith(t, sqldb.Options{OnFull: func() { gaveUp++ }})
	pages := func(n int) {
		t.Helper()
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			var now int
			return tx.QueryRow(ctx, fmt.Sprintf("PRAGMA max_page_count = %d", n)).Scan(&now)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	pages(1) // no smaller than it is
	big := string(make([]byte, 1<<20))
	if err := db.Write(t.Context(), put("big", big)); !drive.IsKind(err, drive.DiskFull) {
		t.Fatalf("got %v", err)
	}
	if gaveUp == 0 {
		t.Error("the ballast was not given up")
	}
	if _, ok := get(t, db, "big"); ok {
		t.Error("a row that was refused is there")
	}
	pages(1 << 20)
	if err := db.Write(t.Context(), put("big", big)); err != nil {
		t.Fatal(err)
	}
}

func TestCounterSeesEveryCall(t *testing.T) {
	t.Parallel()
	var count sqldbtest.Counter
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: count.Connector})
	if err := db.Write(t.Context(), put("a", "1")); err != nil {
		t.Fatal(err)
	}
	before := count.Total()
	if before == 0 || count.Count(sqldbtest.Commit) == 0 {
		t.Fatalf("%d calls, %d commits after a write", before, count.Count(sqldbtest.Commit))
	}
	get(t, db, "a")
	if count.Total() == before {
		t.Error("a read was not counted")
	}
}
