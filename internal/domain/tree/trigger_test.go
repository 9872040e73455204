package tree_test

import (
	"context"
	"testing"

	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// A tree changes as ever while a trigger notes its changes, as one does while an installation
// moves.
func TestATreeUnderATriggerChanges(t *testing.T) {
	t.Parallel()
	g := plant(t, tree.Options{})
	note := []string{"CREATE TABLE noted (n INTEGER)", "CREATE TRIGGER note AFTER UPDATE ON trees BEGIN INSERT INTO noted VALUES (NEW.seq); END"}
	if g.db.Dialect() == sqldb.MySQL {
		note = []string{"CREATE TABLE noted (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, n BIGINT)", "CREATE TRIGGER note AFTER UPDATE ON trees FOR EACH ROW INSERT INTO noted (n) VALUES (NEW.seq)"}
	}
	t.Cleanup(func() { // the next test has this database
		if err := g.all(context.Background(), "DROP TRIGGER IF EXISTS note", "DROP TABLE IF EXISTS noted"); err != nil {
			t.Error(err)
		}
	})
	if err := g.all(t.Context(), note...); err != nil {
		t.Fatal(err)
	}
	folder := g.mkdir(t, "/a")
	if other := g.mkdir(t, "/b"); other.Seq <= folder.Seq {
		t.Errorf("the second change has the number %d, after %d", other.Seq, folder.Seq)
	}
}

// all executes statements, each by itself.
func (g *garden) all(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if err := g.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { _, err := tx.Exec(ctx, s); return err }); err != nil {
			return err
		}
	}
	return nil
}
