package tree

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// A copy of a folder grows as a branch: its top is trashed and owned by the operation, so nobody
// sees it, until all of it is there and Reveal shows it at once. A branch that is not wanted any
// more is purged.

// StartBranch makes the hidden top of a copy of the folder. The place is checked as it is now, and
// again by Reveal.
func (t *Tree) StartBranch(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, p Place, below Extent, op drive.OperationID) (Node, error) {
	if err := t.checkParent(ctx, tx, account, p, below); err != nil {
		return Node{}, err
	}
	if err := t.opt.Enters(ctx, tx, Folder{account, p.Parent}, tx.Actor()); err != nil {
		return Node{}, err
	}
	seq, err := t.change(ctx, tx, account, 1, 1)
	if err != nil {
		return Node{}, err
	}
	n := t.newNode(account, p.Parent, p.Name, TypeFolder)
	n.Seq, n.Trashed, n.Operation = seq, n.Created, op
	return n, t.insert(ctx, tx, Effect{Node: n})
}

// CopyInto copies nodes, alone, without what is below them, into a folder where their names are
// free, and returns the copies in the same order. The caller holds a reference for the blob of each
// file.
func (t *Tree) CopyInto(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, folder drive.NodeID, from []Node, by drive.UserID) ([]Node, error) {
	last, err := t.change(ctx, tx, account, int64(len(from)), int64(len(from)))
	if err != nil {
		return nil, err
	}
	copies := make([]Node, len(from))
	for i, src := range from {
		n := t.newNode(account, folder, src.Name, src.Type)
		n.Seq, n.MTime = last-int64(len(from)-1-i), src.MTime
		n.Blob, n.Size, n.Mime = src.Blob, src.Size, src.Mime
		if src.Type == TypeFile {
			n.Version = drive.NewID[drive.VersionID]()
		}
		if err := t.insert(ctx, tx, Effect{Node: n, From: src.ID}); err != nil {
			return nil, err
		}
		if src.Type == TypeFile {
			if err := t.insertVersion(ctx, tx, n, by); err != nil {
				return nil, err
			}
		}
		copies[i] = n
	}
	return copies, nil
}

// Reveal shows the branch of an operation at its place, which is the top's parent and name as far
// as r does not say otherwise. A branch that is shown already stays as it is.
func (t *Tree) Reveal(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, top drive.NodeID, r Restore) (Node, error) {
	if _, err := t.change(ctx, tx, account, 0, 0); err != nil {
		return Node{}, err
	}
	n, err := t.queryNode(ctx, tx, "WHERE n.id = ? AND n.account_id = ?", top, account)
	if err != nil || n.Operation.IsZero() {
		return n, err
	}
	up, err := t.climb(ctx, tx, top)
	if err != nil {
		return Node{}, err
	}
	if r.Parent.IsZero() {
		r.Parent = n.Parent
	}
	return t.reveal(ctx, tx, n, up, r)
}
