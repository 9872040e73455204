package tree_test

import (
	"context"
	"testing"

	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// TestTreeChangesUnderTrigger: a tree works with a trigger that records its changes, as during a
// migration.
func TestTreeChangesUnderTrigger(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	note := []string{"CREATE TABLE noted (n INTEGER)", "CREATE TRIGGER note AFTER UPDATE ON trees BEGIN INSERT INTO noted VALUES (NEW.seq); END"}
	if g.db.Dialect() == sqldb.MySQL {
		note = []string{"CREATE TABLE noted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n BIGINT)", "CREATE TRIGGER note AFTER UPDATE ON trees FOR EACH ROW INSERT INTO noted (n) VALUES (NEW.seq)"}
	}
	t.Cleanup(func() { // the next test uses this database
		if err := g.execAll(context.Background(), "DROP TRIGGER IF EXISTS note", "DROP TABLE IF EXISTS noted"); err != nil {
			t.Error(err)
		}
	})
	if err := g.execAll(t.Context(), note...); err != nil {
		t.Fatal(err)
	}
	folder := g.mkdir(t, "/a")
	if other := g.mkdir(t, "/b"); other.Seq <= folder.Seq {
		t.Errorf("the second change has the number %d, after %d", other.Seq, folder.Seq)
	}
}

// execAll executes statements one by one.
func (f *fixture) execAll(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if err := f.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { _, err := tx.Exec(ctx, s); return err }); err != nil {
			return err
		}
	}
	return nil
}
