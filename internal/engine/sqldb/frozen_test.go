package sqldb_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// idleLimits are MariaDB's limits on idle transactions. The effective one depends on the statements
// of the transaction.
var idleLimits = []string{"idle_transaction_timeout", "idle_write_transaction_timeout", "idle_readonly_transaction_timeout"}

// TestLocksOfAFrozenProcessEnd: a process that is frozen inside a transaction loses its locks after
// a limited time, whether it has changed a row or only locked it.
func TestLocksOfAFrozenProcessEnd(t *testing.T) {
	t.Parallel()
	sqldbtest.MySQLOnly(t)
	db := sqldbtest.Open(t)
	var version string
	if err := db.QueryRow(t.Context(), "SELECT VERSION()").Scan(&version); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(version, "MariaDB") {
		t.Skip("MySQL has no limit on idle transactions")
	}
	for what, first := range map[string]string{
		"a read with a lock": "SELECT name FROM meta WHERE name = ? FOR UPDATE",
		"a write":            "UPDATE meta SET value = 'x' WHERE name = ?",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			name := drive.NewID[drive.UploadID]().String()
			if err := db.Write(t.Context(), put(name, "1")); err != nil {
				t.Fatal(err)
			}
			held, thaw, frozen := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			go func() { frozen <- freeze(db, first, name, held, thaw) }()
			select {
			case <-held:
			case err := <-frozen:
				t.Fatalf("it did not come to stand still: %v", err)
			}
			err := db.Write(t.Context(), func(ctx context.Context, tx *sqldb.Tx) error {
				_, err := tx.Exec(ctx, "UPDATE meta SET value = '2' WHERE name = ?", name)
				return err
			})
			if err != nil {
				t.Errorf("somebody else's write: %v", err)
			}
			close(thaw)
			if err := <-frozen; !drive.IsKind(err, drive.Unavailable) {
				t.Errorf("the frozen one ended with %v", err)
			}
		})
	}
}

// freeze runs a statement and stays idle in its transaction until thaw is closed. It sets the given
// limits to 1 s.
func freeze(db *sqldb.DB, first, name string, held, thaw chan struct{}) error {
	again := false
	return db.Write(context.Background(), func(ctx context.Context, tx *sqldb.Tx) error {
		if again { // as it runs when its first try was broken off
			return drive.Fail(drive.Unavailable)
		}
		again = true
		if _, err := tx.Exec(ctx, first, name); err != nil {
			return err
		}
		var short []string
		for _, limit := range idleLimits {
			var seconds int
			if err := tx.QueryRow(ctx, "SELECT @@"+limit).Scan(&seconds); err != nil {
				return err
			}
			if seconds < 0 || seconds > 60 || seconds > 0 && seconds <= 20 {
				return fmt.Errorf("%s is %d", limit, seconds)
			}
			if seconds > 0 {
				short = append(short, "SESSION "+limit+" = 1")
			}
		}
		if _, err := tx.Exec(ctx, "SET "+strings.Join(short, ", ")); err != nil {
			return err
		}
		close(held)
		<-thaw
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	})
}
