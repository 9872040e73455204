package webhook_test

import (
	"context"
	"database/sql/driver"
	"sync/atomic"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/usecase/webhook"
)

// TestChangeKeepsAttemptResults: results of attempts are stored without the lock that changes hold.
// A change that writes back what it read must not undo them.
func TestChangeKeepsAttemptResults(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	at := sqldbtest.At(t, sqldb.Options{})
	y := newFixtureIn(t, sqldbtest.OpenAt(t, at, sqldb.NewConnector))
	w := webhook.New(y.parts, webhook.Options{Now: y.clock})
	h := y.hook(t, w, "https://example.org/hook")
	ends := func(lock string) error { // a failed attempt
		return y.db.Write(context.WithoutCancel(t.Context()), func(ctx context.Context, tx *sqldb.Tx) error {
			var id webhook.ID
			if err := tx.QueryRow(ctx, "SELECT id FROM webhooks WHERE id = ?"+lock, h.ID).Scan(&id); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "UPDATE webhooks SET failures = 7, failing_since = 5, not_before = 9 WHERE id = ?", h.ID)
			return err
		})
	}

	// The attempt ends between the change's read and write, or waits for the change.
	var began atomic.Bool
	var waits error
	parts := y.parts
	parts.DB = sqldbtest.OpenAt(t, at, func(source string) (driver.Connector, error) {
		return sqldbtest.Connect(source, func(call sqldbtest.Call, do func() error) error {
			if call == sqldbtest.Exec && began.CompareAndSwap(false, true) {
				waits = ends(" FOR UPDATE NOWAIT")
			}
			return do()
		})
	})
	name := "renamed"
	if _, err := webhook.New(parts, webhook.Options{Now: y.clock}).Change(t.Context(), y.who, h.ID, webhook.HookChange{Name: &name}); err != nil {
		t.Fatal(err)
	}
	if sqldb.IsLockTimeout(waits) {
		waits = ends("")
	}
	if waits != nil || !began.Load() {
		t.Fatal(waits)
	}
	got, err := w.Find(t.Context(), y.who, h.ID)
	if err != nil || got.Name != name || got.Failures != 7 || got.NotBefore != 9 {
		t.Errorf("name %q, %d failures, not before %d; error %v", got.Name, got.Failures, got.NotBefore, err)
	}
}
