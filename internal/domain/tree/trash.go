package tree

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Trash puts a node into the trash, with all that lies below it; rev as in Edit. A node that is in
// the trash already, itself or with a folder above it, stays as it is: trashing twice is trashing
// once.
func (t *Tree) Trash(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, rev int64) (Node, error) {
	n, up, err := t.lock(ctx, tx, account, id)
	if err != nil || !up.live() {
		return n, err
	}
	if err := checkRev(n, rev); err != nil {
		return Node{}, err
	}
	if err := t.opt.Leaves(ctx, tx, n, tx.Actor()); err != nil {
		return Node{}, err
	}
	was := n
	n.Trashed = t.now()
	return n, t.update(ctx, tx, was, &n)
}

// Restore says where a node shall come back.
type Restore struct {
	Parent   drive.NodeID   // zero: where it was, or the root when that folder is not live
	Conflict drive.Conflict // empty: ConflictRename
	Below    Extent         // as in Edit
}

// Restore brings a node back from the trash; one that lies in a trashed folder comes back alone. A
// live node stays as it is.
func (t *Tree) Restore(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, id drive.NodeID, r Restore) (Node, error) {
	n, up, err := t.lock(ctx, tx, account, id)
	if err != nil || up.live() {
		return n, err
	}
	if r.Parent.IsZero() {
		if r.Parent, err = t.home(ctx, tx, n, up); err != nil {
			return Node{}, err
		}
	}
	return t.reveal(ctx, tx, n, up, r)
}

// home returns the folder that a trashed node comes back to by itself.
func (t *Tree) home(ctx context.Context, q sqldb.Querier, n Node, up chain) (drive.NodeID, error) {
	if up[1:].live() {
		return n.Parent, nil
	}
	return t.Root(ctx, q, n.Account)
}

func (t *Tree) reveal(ctx context.Context, tx *sqldb.Tx, n Node, up chain, r Restore) (_ Node, err error) {
	if r.Conflict == "" {
		r.Conflict = drive.ConflictRename
	}
	was := n
	p := Place{Parent: r.Parent, Name: n.Name, Conflict: r.Conflict}
	if n.Name, err = t.claim(ctx, tx, n, up, p, r.Below); err != nil {
		return Node{}, err
	}
	n.Parent, n.Trashed, n.Operation = r.Parent, 0, drive.OperationID{}
	if err := t.update(ctx, tx, was, &n); err != nil {
		return n, err
	}
	return n, t.opt.Arrived(ctx, tx, n)
}

// ListTrashedBefore returns up to limit nodes of the account that were trashed at or before a
// moment, the oldest first.
func (r Reader) ListTrashedBefore(ctx context.Context, q sqldb.Querier, account drive.AccountID, before drive.Time, limit int) ([]Node, error) {
	return r.queryNodes(ctx, q, `WHERE n.account_id = ? AND n.trashed_at > 0 AND n.trashed_at <= ? AND n.operation_id IS NULL
		ORDER BY n.trashed_at, n.id LIMIT ?`, account, before, limit)
}
