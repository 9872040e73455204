package ingest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// TestFullAccountBlocksNoOther checks that an account without room for a bundle's folder
// does not stop the gatherer from gathering the files of other accounts.
func TestFullAccountBlocksNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	w.takesAll(t, in, "acme")
	w.land(t, "acme/a.xml", string(invoicetest.UBL(invoicetest.New(1))))
	roomy, full := w.who.Account, drive.AccountID{1} // the full account sorts before the other one
	w.who.Account = full
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO accounts (id, created_at) VALUES (?, ?)", full, start); err != nil {
			return err
		}
		_, err := w.tree.Create(ctx, tx, full)
		return err
	})
	w.takesAll(t, in, "zero")
	w.land(t, "zero/b.xml", string(invoicetest.UBL(invoicetest.New(2))))
	nodes := w.count(t, "SELECT MAX(node_count) FROM trees")
	counted := func(n int64) { // the other account has room
		w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "UPDATE trees SET node_count = node_count + ? WHERE account_id = ?", n, roomy)
			return err
		})
	}
	counted(-1)
	narrow := w.process(w.db, "2", func(o *Options) { o.Tree = tree.New(tree.Options{MaxNodes: nodes}) })
	w.pass(quietFor)
	if err := narrow.Gather(t.Context()); !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("the full account: %v", err)
	}
	counted(+1)
	w.finish(t, in)
	w.who.Account = roomy
	if diff := cmp.Diff([]string{"done 1=1+0+0+0 a.xml:1"}, w.gathered(t, in, "acme")); diff != "" {
		t.Error(diff)
	}
	w.who.Account = full
	w.gather(t, in) // the full account has room again
	if diff := cmp.Diff([]string{"done 1=1+0+0+0 b.xml:1"}, w.gathered(t, in, "zero")); diff != "" {
		t.Error(diff)
	}
}
