package tree

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Trash puts a node with its descendants into the trash. A node that is already in the trash,
// itself or with a folder above it, is returned unchanged. It fails with Precondition {current} if
// rev is neither zero nor the current revision, and with the error of Options.CheckRemove.
func (t *Tree) Trash(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, rev int64) (Node, error) {
	n, up, err := t.lockNode(ctx, tx, account, id)
	if err != nil || !up.live() {
		return n, err
	}
	if err := checkRev(n, rev); err != nil {
		return Node{}, err
	}
	if err := t.opt.CheckRemove(ctx, tx, n, tx.Actor()); err != nil {
		return Node{}, err
	}
	was := n
	n.Trashed = t.now()
	return n, t.update(ctx, tx, was, &n)
}

// Restore configures Tree.Restore and Tree.Reveal.
type Restore struct {
	Parent   drive.NodeID   // zero: the former folder, or the root if that is not live
	Conflict drive.Conflict // empty: ConflictRename
	Extent   Extent         // as in Edit
}

// Restore restores a node from the trash; a descendant of a trashed folder is restored alone. A
// live node is returned unchanged. It fails like PutFile for the place.
func (t *Tree) Restore(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, r Restore) (Node, error) {
	n, up, err := t.lockNode(ctx, tx, account, id)
	if err != nil || up.live() {
		return n, err
	}
	if r.Parent.IsZero() {
		if r.Parent, err = t.restoreFolder(ctx, tx, n, up); err != nil {
			return Node{}, err
		}
	}
	return t.makeLive(ctx, tx, n, up, r)
}

// restoreFolder returns the folder to restore a trashed node to if the caller names none: the
// node's parent if all its ancestors are live, else the root of the account. up is the chain of n,
// n first.
func (t *Tree) restoreFolder(ctx context.Context, q sqldb.Querier, n Node, up chain) (drive.NodeID, error) {
	if up[1:].live() {
		return n.Parent, nil
	}
	return t.Root(ctx, q, n.Account)
}

// makeLive takes a trashed node out of the trash: it moves the node to r.Parent under a free name,
// clears its trash time and operation, writes the row and calls Options.OnPlaced. Without
// r.Conflict a taken name is changed. It returns the node as written; it fails as preparePlace
// does.
func (t *Tree) makeLive(ctx context.Context, tx *sqldb.Tx, n Node, up chain, r Restore) (_ Node, err error) {
	if r.Conflict == "" {
		r.Conflict = drive.ConflictRename
	}
	was := n
	p := Place{Parent: r.Parent, Name: n.Name, Conflict: r.Conflict}
	if n.Name, err = t.preparePlace(ctx, tx, n, up, p, r.Extent); err != nil {
		return Node{}, err
	}
	n.Parent, n.Trashed, n.Operation = r.Parent, 0, drive.OperationID{}
	if err := t.update(ctx, tx, was, &n); err != nil {
		return n, err
	}
	return n, t.opt.OnPlaced(ctx, tx, n)
}

// ListTrashedBefore returns up to limit nodes of the account that were trashed at or before the
// given time, oldest first.
func (r Reader) ListTrashedBefore(ctx context.Context, q sqldb.Querier, account drive.AccountID, before drive.Time, limit int) ([]Node, error) {
	return r.queryNodes(ctx, q, `WHERE n.account_id = ? AND n.trashed_at > 0 AND n.trashed_at <= ? AND n.operation_id IS NULL
		ORDER BY n.trashed_at, n.id LIMIT ?`, account, before, limit)
}
