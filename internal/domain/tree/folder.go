package tree

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// EnsureFolders returns the folder at a path and creates missing folders in tx. It fails with
// NameTaken if a file is in the way, and as allocSeqs does if the account may have no more nodes or
// changes.
func (t *Tree) EnsureFolders(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, path drive.Path) (Node, error) {
	n, rest, err := t.Deepest(ctx, tx, account, path)
	if err != nil {
		return Node{}, err
	}
	if !n.IsFolder() {
		return Node{}, nameTaken(n.Name)
	}
	for _, name := range rest {
		if n, err = t.addFolder(ctx, tx, account, n.ID, name); err != nil {
			return Node{}, err
		}
	}
	return n, nil
}

// CreateFolder creates a folder. If the name is taken, ConflictRename picks a free name, and every
// other policy fails with NameTaken. It fails with ParentGone or BadName if the place is not valid,
// and as addFolder does.
func (t *Tree) CreateFolder(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, p Place) (Node, error) {
	if err := t.checkParent(ctx, tx, account, p, Extent{}); err != nil {
		return Node{}, err
	}
	_, taken, err := t.Child(ctx, tx, account, p.Parent, p.Name)
	switch {
	case err != nil:
		return Node{}, err
	case taken && p.Conflict != drive.ConflictRename:
		return Node{}, nameTaken(p.Name)
	case taken:
		if p.Name, err = t.freeName(ctx, tx, account, p, TypeFolder); err != nil {
			return Node{}, err
		}
	}
	return t.addFolder(ctx, tx, account, p.Parent, p.Name)
}

// addFolder creates an empty folder. The caller has checked that the name is free in the parent. It
// fails with the error of Options.CheckAdd, and as allocSeqs does if the account may have no more
// nodes or changes.
func (t *Tree) addFolder(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, parent drive.NodeID, name drive.Name) (Node, error) {
	if err := t.opt.CheckAdd(ctx, tx, Folder{account, parent}, tx.Actor()); err != nil {
		return Node{}, err
	}
	seq, err := t.allocSeqs(ctx, tx, account, 1, 1)
	if err != nil {
		return Node{}, err
	}
	n := t.newNode(account, parent, name, TypeFolder)
	n.Seq = seq
	return n, t.insert(ctx, tx, Effect{Node: n})
}
