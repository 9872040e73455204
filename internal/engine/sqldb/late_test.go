package sqldb_test

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestLateRowsAreOfTheirTransaction: late rows are inserted in order if their transaction commits,
// except those of a failed Try.
func TestLateRowsAreOfTheirTransaction(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	refused := errors.New("refused")
	late := func(tx *sqldb.Tx, keys ...string) {
		for i, key := range keys {
			tx.InsertLate("INSERT INTO meta (name, value)", []any{key, strconv.Itoa(i)})
		}
	}
	write := func(fn func(context.Context, *sqldb.Tx) error) error { return db.Write(t.Context(), fn) }
	if err := write(func(ctx context.Context, tx *sqldb.Tx) error {
		late(tx, "late a", "late b")
		failed, err := tx.Try(ctx, func(_ context.Context, tx *sqldb.Tx) error { late(tx, "late undone"); return refused })
		if !errors.Is(failed, refused) {
			t.Errorf("the part ended with %v", failed)
		}
		if err == nil {
			_, err = tx.Try(ctx, func(_ context.Context, tx *sqldb.Tx) error { late(tx, "late c"); return nil })
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := write(func(_ context.Context, tx *sqldb.Tx) error { late(tx, "late never"); return refused }); !errors.Is(err, refused) {
		t.Fatal(err)
	}
	// One that cannot be inserted takes the transaction with it.
	if err := write(func(ctx context.Context, tx *sqldb.Tx) error {
		late(tx, "late a")
		_, err := tx.Exec(ctx, "INSERT INTO meta (name, value) VALUES ('late with it', '')")
		return err
	}); !sqldb.IsDuplicate(err) {
		t.Fatalf("want a duplicate, got %v", err)
	}
	rows, err := db.Query(t.Context(), "SELECT name FROM meta WHERE name LIKE 'late %' ORDER BY name")
	got, err := sqldb.Scan(rows, err, func(s *string, scan func(...any) error) error { return scan(s) })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"late a", "late b", "late c"}, got); d != "" {
		t.Error(d)
	}
}
