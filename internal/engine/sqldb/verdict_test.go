package sqldb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestFailedGroupFailsEveryWrite: a function may read rows written by another one of its group. If
// COMMIT fails, these rows are rolled back, and so the function's result is invalid.
func TestFailedGroupFailsEveryWrite(t *testing.T) {
	t.Parallel()
	sqldbtest.SQLiteOnly(t, "nobody else sees rows that are not committed")
	for _, cause := range []error{drive.Fail(drive.DiskFull), drive.Fail(drive.Unavailable)} {
		want := drive.KindOf(cause)
		t.Run(want.String(), func(t *testing.T) {
			t.Parallel()
			var faults sqldbtest.Faults
			db := sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)})
			faults.FailAll(sqldbtest.Commit, cause)
			errs := make([]error, 3)
			sqldbtest.Concurrently(t, db, len(errs), func(i int) { errs[i] = db.Write(t.Context(), takeName) })
			for i, err := range errs {
				if !drive.IsKind(err, want) || errors.Is(err, sqldb.ErrUnwritten) {
					t.Errorf("function %d: %v, want %s, which leaves open what was written", i, err, want)
				}
			}
			if _, there := get(t, db, "name"); there {
				t.Error("the name is there")
			}
			faults.Clear()
			if err := db.Write(t.Context(), takeName); err != nil {
				t.Errorf("the fault is gone, and still: %v", err)
			}
			if err := db.Write(t.Context(), takeName); !drive.IsKind(err, drive.NameTaken) {
				t.Errorf("the name is taken now: %v", err)
			}
		})
	}
}

// takeName inserts a unique name.
func takeName(ctx context.Context, tx *sqldb.Tx) error {
	var n int
	if err := tx.QueryRow(ctx, "SELECT COUNT(*) FROM meta WHERE name = 'name'").Scan(&n); err != nil {
		return err
	}
	if n > 0 {
		return drive.Fail(drive.NameTaken)
	}
	return put("name", "x")(ctx, tx)
}

// TestUnstartedWriteIsMarkedUnwritten: a Write that is cancelled before its function starts, or
// cannot begin a transaction, returns ErrUnwritten.
func TestUnstartedWriteIsMarkedUnwritten(t *testing.T) {
	t.Parallel()
	var faults sqldbtest.Faults
	db := sqldbtest.OpenWith(t, sqldb.Options{Connector: faults.Connector, Log: slog.New(slog.DiscardHandler)})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for i, try := range []struct {
		ctx   context.Context
		fault sqldbtest.Call
	}{{gone, ""}, {t.Context(), sqldbtest.Begin}} {
		if try.fault != "" {
			faults.FailAll(try.fault, nil)
		}
		key := fmt.Sprint(i)
		err := db.Write(try.ctx, put(key, "x"))
		if !drive.IsKind(err, drive.Unavailable) || !errors.Is(err, sqldb.ErrUnwritten) {
			t.Errorf("write %d: %v, which does not say that nothing was written", i, err)
		}
		faults.Clear()
		if err := db.Write(t.Context(), put(key, "x")); err != nil {
			t.Errorf("write %d, once more: %v", i, err)
		}
	}
}
