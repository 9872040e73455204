package files

import (
	"context"
	"math"

	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// purging deletes one subtree for good.
type purging struct {
	tree  *tree.Tree
	books *books
	batch int
}

func (w *purging) left(ctx context.Context, o operation) (int64, error) {
	return w.tree.Count(ctx, w.books.db, o.args.Top, math.MaxInt64)
}

// failed leaves it as it is: what was begun to be deleted is deleted some time.
func (w *purging) failed(_ context.Context, o operation, cause error) (operation, error) {
	return o, cause
}

func (w *purging) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	p, err := w.tree.PurgeStep(ctx, tx, o.account, o.args.Top, w.batch)
	if err != nil {
		return false, err
	}
	o.Done += p.Nodes
	return p.Done, w.books.drop(ctx, tx, o.account, p.Versions)
}

// emptying deletes for good what was put into the trash up to a moment.
type emptying struct{ purging }

func (w *emptying) left(ctx context.Context, o operation) (int64, error) {
	return w.tree.CountTrash(ctx, w.books.db, o.account, math.MaxInt64)
}

// step purges the trash from its oldest end. A node that a batch does not finish becomes the
// operation's own, so that nobody restores half of it.
func (w *emptying) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	tops, err := w.tree.ListOwned(ctx, tx, o.account, o.ID, 1)
	if err == nil && len(tops) == 0 {
		tops, err = w.tree.ListTrashedBefore(ctx, tx, o.account, o.args.Before, w.batch)
	}
	if err != nil {
		return false, err
	}
	left := w.batch
	var gone []tree.Version
	for i := 0; i < len(tops) && left > 0; i++ {
		p, err := w.tree.PurgeStep(ctx, tx, o.account, tops[i].ID, left)
		if err == nil && !p.Done && tops[i].Operation.IsZero() {
			_, err = w.tree.Doom(ctx, tx, o.account, tops[i].ID, 0, o.ID)
		}
		if err != nil {
			return false, err
		}
		o.Done += p.Nodes
		gone = append(gone, p.Versions...)
		if left -= int(p.Nodes) + len(p.Versions); !p.Done {
			break
		}
	}
	return len(tops) == 0, w.books.drop(ctx, tx, o.account, gone) // all at once, in the order of their blobs
}
