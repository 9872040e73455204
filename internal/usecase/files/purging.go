package files

import (
	"context"
	"math"

	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// purgeHandler implements the operations that delete one subtree permanently.
type purgeHandler struct {
	tree       *tree.Tree
	accounting *accounting
	batch      int
}

// remaining returns the number of nodes in the subtree that are not deleted yet.
func (h *purgeHandler) remaining(ctx context.Context, o operation) (int64, error) {
	return h.tree.Count(ctx, h.accounting.db, o.args.Top, math.MaxInt64)
}

// handleFailure returns cause, so that the step is retried: a purge that began always ends.
func (h *purgeHandler) handleFailure(_ context.Context, o operation, cause error) (operation, error) {
	return o, cause
}

// step deletes up to a batch of nodes and versions of the subtree within tx and releases their
// contents. finished reports that the subtree is gone.
func (h *purgeHandler) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	p, err := h.tree.PurgeStep(ctx, tx, o.account, o.args.Top, h.batch)
	if err != nil {
		return false, err
	}
	o.Done += p.Nodes
	return p.Done, h.accounting.drop(ctx, tx, o.account, p.Versions)
}

// emptyTrashHandler implements the operations that delete what was trashed up to a given time.
type emptyTrashHandler struct{ purgeHandler }

// remaining returns the number of nodes in the account's trash, newly trashed ones too.
func (h *emptyTrashHandler) remaining(ctx context.Context, o operation) (int64, error) {
	return h.tree.CountTrash(ctx, h.accounting.db, o.account, math.MaxInt64)
}

// step purges up to a batch of rows of the trash, oldest first, and reports whether the trash is
// empty. A subtree that one batch does not finish is assigned to the operation, so that it cannot
// be restored in part.
func (h *emptyTrashHandler) step(ctx context.Context, tx *sqldb.Tx, o *operation) (finished bool, err error) {
	tops, err := h.tree.ListOwned(ctx, tx, o.account, o.ID, 1)
	if err == nil && len(tops) == 0 {
		tops, err = h.tree.ListTrashedBefore(ctx, tx, o.account, o.args.Before, h.batch)
	}
	if err != nil {
		return false, err
	}
	left := h.batch
	var gone []tree.Version
	for i := 0; i < len(tops) && left > 0; i++ {
		p, err := h.tree.PurgeStep(ctx, tx, o.account, tops[i].ID, left)
		if err == nil && !p.Done && tops[i].Operation.IsZero() {
			_, err = h.tree.MarkForPurge(ctx, tx, o.account, tops[i].ID, tree.Expect{}, o.ID)
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
	return len(tops) == 0, h.accounting.drop(ctx, tx, o.account, gone) // one call, so that blob rows are locked in the order of their ids
}
