package sqldb_test

import (
	"context"
	"fmt"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// TestOrphansAreFoundBySlices: a call examines a limited number of rows; the next one continues,
// and restarts after the end.
func TestOrphansAreFoundBySlices(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	add := func(n int, collect string) {
		t.Helper()
		err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO collected (upload_id, collect_id, account_id, sender_id, sender, name, size, digests, state, created_at)
				VALUES (?, ?, 'a', 's', '', '', 0, '', 'open', 0)`, fmt.Sprintf("u%02d", n), collect)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES ('a', 0)"); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO collects (id, account_id, user_id, folder_id, token, title, message, expires_at, created_at)
			VALUES ('here', 'a', '', '', 'x', '', '', 0, 0)`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 10 {
		add(n, []string{"here", "gone"}[n%2])
	}
	o := sqldb.Orphans{Table: "collected", Key: "upload_id", Owner: "collect_id", OwnerTable: "collects", PerRun: 4}
	for call, want := range []int64{2, 2, 1} {
		if n, err := o.Delete(t.Context(), db); err != nil || n != want {
			t.Errorf("call %d deletes %d, %v; want %d", call, n, err, want)
		}
	}
	add(1, "gone") // before where it is
	if n, err := o.Delete(t.Context(), db); err != nil || n != 1 {
		t.Errorf("at the beginning again it deletes %d, %v", n, err)
	}
	var left int
	if err := db.QueryRow(t.Context(), "SELECT COUNT(*) FROM collected").Scan(&left); err != nil || left != 5 {
		t.Errorf("%d rows are left, %v; want the 5 whose owner is there", left, err)
	}
}
