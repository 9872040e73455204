package files

import (
	"context"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Patch says what of a node shall change; a zero field stays as it is.
type Patch struct {
	Name     drive.Name
	Parent   drive.NodeID
	MTime    drive.Time
	Conflict drive.Conflict // replace: what is in the way goes to the trash
	Expect   tree.Expect    // what the caller decided by
}

// Patch renames, moves and touches a live node; see tree.Edit for the errors.
func (f *Files) Patch(ctx context.Context, who drive.Who, id drive.NodeID, p Patch) (NodeView, error) {
	e := tree.Edit{Parent: p.Parent, Name: p.Name, MTime: p.MTime, Conflict: p.Conflict, Rev: p.Expect.Rev}
	from, pass, err := f.enterEdit(ctx, who, id, p)
	if err != nil {
		return NodeView{}, err
	}
	caller := who
	who = pass.Who
	if e.Below, err = f.Below(ctx, f.opt.DB, who, id, p.Parent, p.Name); err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, pass, p.Expect, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		n, err := f.opt.Tree.Edit(ctx, tx, who.Account, id, e)
		if err == nil && !p.Parent.IsZero() {
			err = f.moved(ctx, tx, caller, from, n)
		}
		return n, err
	})
}

// moved ends what was remembered of who may do what below a folder that has moved, and refuses a
// move by which somebody would get rights that they did not have: an editor could make themselves a
// manager of what they edit by moving it to where they manage.
func (d *doors) moved(ctx context.Context, tx *sqldb.Tx, caller drive.Who, from access.Pass, n tree.Node) error {
	if n.IsFolder() {
		if err := d.access.Moved(ctx, tx, n.Account); err != nil {
			return err
		}
	}
	if !from.Who.Guest || from.Rights.Has(access.Manage) {
		return nil
	}
	now, err := d.access.At(ctx, tx, caller, n.ID)
	switch {
	case drive.IsKind(err, drive.NotFound): // it has gone to where they put things and see none
		return nil
	case err == nil && !from.Rights.Has(now.Rights):
		return drive.Fail(drive.Forbidden, "reason", "role", "role", string(from.Rights.Role()), "needs", string(access.Manager))
	}
	return err
}

// enterEdit lets the caller change a node, and puts it where it goes. The pass to shows the node
// after the change.
func (d *doors) enterEdit(ctx context.Context, who drive.Who, id drive.NodeID, p Patch) (from, to access.Pass, err error) {
	from, err = d.enter(ctx, who, id, access.Edit)
	if err != nil || p.Parent.IsZero() {
		return from, from, err
	}
	if err := from.CheckAway(access.Move); err != nil {
		return from, from, err
	}
	to, err = d.enterTarget(ctx, who, from, p.Parent, p.Conflict)
	return from, to, err
}

// enterTarget lets the caller put something into a folder of the same account. What is in the way
// goes to the trash when the policy is replace.
func (d *doors) enterTarget(ctx context.Context, who drive.Who, from access.Pass, parent drive.NodeID, c drive.Conflict) (access.Pass, error) {
	to, err := d.enter(ctx, who, parent, useOf(c))
	if err == nil && to.Who.Account != from.Who.Account {
		err = elsewhere()
	}
	return to, err
}

// Trash puts a node into the trash.
func (f *Files) Trash(ctx context.Context, who drive.Who, id drive.NodeID, e tree.Expect) (NodeView, error) {
	pass, err := f.enter(ctx, who, id, access.Trash)
	if err == nil {
		err = pass.CheckAway(access.Trash)
	}
	if err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, pass, e, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		return f.opt.Tree.Trash(ctx, tx, pass.Who.Account, id, e.Rev)
	})
}

// Restore brings a node back from the trash: to parent, or, when that is zero, where it was, or to
// the root when that folder is not there. An empty policy is rename.
func (f *Files) Restore(ctx context.Context, who drive.Who, id, parent drive.NodeID, conflict drive.Conflict) (NodeView, error) {
	from, pass, err := f.enterRestore(ctx, who, id, parent, conflict)
	if err != nil {
		return NodeView{}, err
	}
	caller := who
	who = pass.Who
	below, err := f.Below(ctx, f.opt.DB, who, id, parent, "")
	if err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, pass, tree.Expect{}, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		n, err := f.opt.Tree.Restore(ctx, tx, who.Account, id, tree.Restore{Parent: parent, Conflict: conflict, Below: below})
		if err == nil {
			err = f.moved(ctx, tx, caller, from, n)
		}
		return n, err
	})
}

// enterRestore lets the caller bring a node back. A guest whose folder is not there any more says
// where it goes: the root, where it would go, may be none of their business.
func (d *doors) enterRestore(ctx context.Context, who drive.Who, id, parent drive.NodeID, c drive.Conflict) (from, to access.Pass, err error) {
	from, err = d.enter(ctx, who, id, access.Restore)
	if err != nil {
		return from, from, err
	}
	if parent.IsZero() {
		if !from.Who.Guest {
			return from, from, nil
		}
		n, err := d.tree.Find(ctx, d.db, from.Who.Account, id)
		if err != nil || n.IsRoot() {
			return from, from, err
		}
		if _, live, err := d.tree.PathOf(ctx, d.db, n.Parent); err != nil || !live {
			return from, from, errors.Join(drive.Fail(drive.ParentGone), err)
		}
		parent = n.Parent
	}
	to, err = d.enterTarget(ctx, who, from, parent, c)
	return from, to, err
}

// Below measures what is below a folder that goes to a parent, under a name, unless its place is no
// deeper then and its path no longer than now: to rename a folder of a million files must not read
// a million rows. What is zero of the place stays as it is. A parent that is not there is the
// transaction's to refuse. It is called before the transaction that moves the folder, or within it
// when the measure may be old.
func (f *Files) Below(ctx context.Context, q sqldb.Querier, who drive.Who, id, parent drive.NodeID, name drive.Name) (tree.Extent, error) {
	n, err := f.opt.Tree.Find(ctx, q, who.Account, id)
	if err != nil || !n.IsFolder() {
		return tree.Extent{}, err
	}
	from, err := f.opt.Tree.Locate(ctx, q, id)
	if err != nil {
		return tree.Extent{}, err
	}
	if parent.IsZero() {
		parent = n.Parent
	}
	if name == "" {
		name = n.Name
	}
	to, err := f.opt.Tree.Locate(ctx, q, parent)
	if drive.IsKind(err, drive.NotFound) {
		return tree.Extent{}, nil
	}
	longer := len(to.Path.String())+len(name)+1 > len(from.Path.String())+1 || len(to.Path)+1 > len(from.Path)
	if err != nil || !longer {
		return tree.Extent{}, err
	}
	return f.opt.Tree.Extent(ctx, q, id)
}

// Moved ends what was remembered of who may do what below a folder that tx has moved.
func (f *Files) Moved(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	if !n.IsFolder() {
		return nil
	}
	return f.opt.Access.Moved(ctx, tx, n.Account)
}

// change runs one change of a node in a transaction, if all is as expected, and shows the node.
func (f *Files) change(
	ctx context.Context, p access.Pass, e tree.Expect, fn func(context.Context, *sqldb.Tx) (tree.Node, error),
) (view NodeView, err error) {
	err = f.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := e.Check(ctx, tx, f.opt.Tree); err != nil {
			return err
		}
		n, err := fn(ctx, tx)
		if err != nil {
			return err
		}
		view, err = f.viewer(tx).as(p).view(ctx, n)
		return err
	})
	return view, err
}
