package app

import (
	"context"
	"errors"
	"strings"
	"testing"

	"example.org/smartdrive/internal/engine/sqldb"
)

// A newer release does not change the database below an older one that uses it, and an older one
// that has opened it just before is refused.
func TestFormatChangesOnlyInAnUnusedDatabase(t *testing.T) {
	t.Parallel()
	db, blobs := mysqlDatabase(t), t.TempDir()
	older := testConfig(t, "--db", db, "--blobs", blobs, "--start-wait", "0")
	a, err := Open(t.Context(), older, silent)
	if err != nil {
		t.Fatal(err)
	}
	format := func(statement string) {
		t.Helper()
		err := a.platform.db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, statement)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	format("UPDATE goose_db_version SET version_id = 119 WHERE version_id > 0")
	newer := testConfig(t, "--db", db, "--blobs", blobs, "--start-wait", "0")
	_, err = Open(t.Context(), newer, silent)
	failed, ok := errors.AsType[*StartError](err)
	if !ok || failed.Configuration() || !strings.Contains(err.Error(), "from format 119") || !strings.Contains(err.Error(), "stop it first") {
		t.Errorf("beside one that uses it: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if a, err = Open(t.Context(), newer, silent); err != nil {
		t.Fatalf("after it has left: %v", err)
	}
	format("INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	if err := a.platform.joinOthers(t.Context(), false); err == nil || !strings.Contains(err.Error(), "use a newer release") {
		t.Errorf("it joins what a newer release has changed since it was opened: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
