package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Patch says what of a node shall change; a zero field stays as it is.
type Patch struct {
	Name     drive.Name
	Parent   drive.NodeID
	MTime    drive.Time
	Conflict drive.Conflict // replace: what is in the way goes to the trash
	Rev      int64          // If-Match: the revision that the caller saw
}

// Patch renames, moves and touches a live node; see tree.Edit for the errors.
func (f *Files) Patch(ctx context.Context, who drive.Who, id drive.NodeID, p Patch) (NodeView, error) {
	e := tree.Edit{Parent: p.Parent, Name: p.Name, MTime: p.MTime, Conflict: p.Conflict, Rev: p.Rev}
	var err error
	if e.Below, err = f.below(ctx, who, id, p.Parent, p.Name); err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		return f.opt.Tree.Edit(ctx, tx, who.Account, id, e)
	})
}

// below measures what is below a folder that goes to a place, unless the place is no deeper and its
// path no longer than now: to rename a folder of a million files must not read a million rows. A
// parent that is not there is the transaction's to refuse.
func (f *Files) below(ctx context.Context, who drive.Who, id, parent drive.NodeID, name drive.Name) (tree.Extent, error) {
	n, err := f.opt.Tree.Find(ctx, f.opt.DB, who.Account, id)
	if err != nil || !n.IsFolder() {
		return tree.Extent{}, err
	}
	from, err := f.opt.Tree.Locate(ctx, f.opt.DB, id)
	if err != nil {
		return tree.Extent{}, err
	}
	if parent.IsZero() {
		parent = n.Parent
	}
	if name == "" {
		name = n.Name
	}
	to, err := f.opt.Tree.Locate(ctx, f.opt.DB, parent)
	if drive.IsKind(err, drive.NotFound) {
		return tree.Extent{}, nil
	}
	longer := len(to.Path.String())+len(name)+1 > len(from.Path.String())+1 || len(to.Path)+1 > len(from.Path)
	if err != nil || !longer {
		return tree.Extent{}, err
	}
	return f.opt.Tree.Extent(ctx, f.opt.DB, id)
}

// Trash puts a node into the trash; rev is the revision that the caller saw, zero any.
func (f *Files) Trash(ctx context.Context, who drive.Who, id drive.NodeID, rev int64) (NodeView, error) {
	return f.change(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		return f.opt.Tree.Trash(ctx, tx, who.Account, id, rev)
	})
}

// Restore brings a node back from the trash: to parent, or, when that is zero, where it was, or to
// the root when that folder is not there. An empty policy is rename.
func (f *Files) Restore(ctx context.Context, who drive.Who, id, parent drive.NodeID, conflict drive.Conflict) (NodeView, error) {
	below, err := f.below(ctx, who, id, parent, "")
	if err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		return f.opt.Tree.Restore(ctx, tx, who.Account, id, tree.Restore{Parent: parent, Conflict: conflict, Below: below})
	})
}

// change runs one change of a node in a transaction and shows the node.
func (f *Files) change(
	ctx context.Context, account drive.AccountID, fn func(context.Context, *sqldb.Tx) (tree.Node, error),
) (view NodeView, err error) {
	err = f.write(ctx, account, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		view, err = f.View(ctx, tx, n)
		return err
	})
	return view, err
}
