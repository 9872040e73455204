package files

import (
	"context"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Patch lists the changes of a node; a zero field leaves its property unchanged.
type Patch struct {
	Name     drive.Name
	Parent   drive.NodeID
	MTime    drive.Time
	Conflict drive.Conflict // replace: a node of the same name in the target goes to the trash
	Expect   tree.Expect    // what the caller has read and relies on
}

// Patch renames, moves and sets the modification time of a live node, and returns its new view. It
// fails with NotFound or Forbidden without the right, WrongState {state: trashed}, NameTaken,
// ParentGone, Cycle if a folder would move below itself, Locked, and, if p.Expect does not hold,
// with an error that tree.IsStale recognizes. A parent in another account fails with an error that
// IsCrossAccount recognizes.
func (f *Files) Patch(ctx context.Context, who drive.Who, id drive.NodeID, p Patch) (NodeView, error) {
	e := tree.Edit{Parent: p.Parent, Name: p.Name, MTime: p.MTime, Conflict: p.Conflict, Rev: p.Expect.Rev}
	from, pass, err := f.authorizeEdit(ctx, who, id, p)
	if err != nil {
		return NodeView{}, err
	}
	caller := who
	who = pass.Who
	if e.Extent, err = f.MoveExtent(ctx, f.opt.DB, who, id, p.Parent, p.Name); err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, pass, p.Expect, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		n, err := f.opt.Tree.Edit(ctx, tx, who.Account, id, e)
		if err == nil && !p.Parent.IsZero() {
			err = f.checkMoved(ctx, tx, caller, from, n)
		}
		return n, err
	})
}

// checkMoved invalidates cached access decisions below a moved folder. It fails with Forbidden if
// the move would give the caller rights that the caller did not have: an editor must not become a
// manager by moving a node to where they manage.
func (a *authorizer) checkMoved(ctx context.Context, tx *sqldb.Tx, caller drive.Who, from access.Pass, n tree.Node) error {
	if n.IsFolder() {
		if err := a.access.InvalidateIfGranted(ctx, tx, n.Account); err != nil {
			return err
		}
	}
	if !from.Who.Guest || from.Rights.Has(access.Manage) {
		return nil
	}
	now, err := a.access.At(ctx, tx, caller, n.ID)
	switch {
	case drive.IsKind(err, drive.NotFound): // moved into a folder where the caller may upload and not list
		return nil
	case err == nil && !from.Rights.Has(now.Rights):
		return drive.Fail(drive.Forbidden, "reason", "role", "role", string(from.Rights.Role()), "needs", string(access.Manager))
	}
	return err
}

// authorizeEdit checks that the caller may edit a node and, if p moves it, put it into the new
// parent. to is the authorization that the result is shown with.
func (a *authorizer) authorizeEdit(ctx context.Context, who drive.Who, id drive.NodeID, p Patch) (from, to access.Pass, err error) {
	from, err = a.authorize(ctx, who, id, access.Edit)
	if err != nil || p.Parent.IsZero() {
		return from, from, err
	}
	if err := from.CheckRemoval(access.Move); err != nil {
		return from, from, err
	}
	to, err = a.authorizeTarget(ctx, who, from, p.Parent, p.Conflict)
	return from, to, err
}

// authorizeTarget checks that the caller may put a node into the folder parent, and replace nodes
// there if the policy is replace. It fails with errCrossAccount if the folder belongs to another
// account.
func (a *authorizer) authorizeTarget(ctx context.Context, who drive.Who, from access.Pass, parent drive.NodeID, c drive.Conflict) (access.Pass, error) {
	to, err := a.authorize(ctx, who, parent, useForConflict(c))
	if err == nil && to.Who.Account != from.Who.Account {
		err = errCrossAccount()
	}
	return to, err
}

// Trash puts a node into the trash, with everything below it, and returns its new view. It fails
// with NotFound or Forbidden without the right to trash it, with Locked, and, if data has changed
// from what e expects, with an error that tree.IsStale recognizes; nothing is changed then.
func (f *Files) Trash(ctx context.Context, who drive.Who, id drive.NodeID, e tree.Expect) (NodeView, error) {
	pass, err := f.authorize(ctx, who, id, access.Trash)
	if err == nil {
		err = pass.CheckRemoval(access.Trash)
	}
	if err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, pass, e, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		return f.opt.Tree.Trash(ctx, tx, pass.Who.Account, id, e.Rev)
	})
}

// Restore restores a node from the trash to the folder parent; if that is zero, to its former
// folder, or to the root if the former folder is not live. An empty conflict policy means rename. A
// live node is returned unchanged. It fails with NotFound or Forbidden without the right, and with
// NameTaken or ParentGone for the target.
func (f *Files) Restore(ctx context.Context, who drive.Who, id, parent drive.NodeID, conflict drive.Conflict) (NodeView, error) {
	from, pass, err := f.authorizeRestore(ctx, who, id, parent, conflict)
	if err != nil {
		return NodeView{}, err
	}
	caller := who
	who = pass.Who
	below, err := f.MoveExtent(ctx, f.opt.DB, who, id, parent, "")
	if err != nil {
		return NodeView{}, err
	}
	return f.change(ctx, pass, tree.Expect{}, func(ctx context.Context, tx *sqldb.Tx) (tree.Node, error) {
		n, err := f.opt.Tree.Restore(ctx, tx, who.Account, id, tree.Restore{Parent: parent, Conflict: conflict, Extent: below})
		if err == nil {
			err = f.checkMoved(ctx, tx, caller, from, n)
		}
		return n, err
	})
}

// authorizeRestore checks that the caller may restore a node to parent. It fails with ParentGone if
// the former folder is not live and a guest names no parent: a guest may have no access to the
// root.
func (a *authorizer) authorizeRestore(ctx context.Context, who drive.Who, id, parent drive.NodeID, c drive.Conflict) (from, to access.Pass, err error) {
	from, err = a.authorize(ctx, who, id, access.Restore)
	if err != nil {
		return from, from, err
	}
	if parent.IsZero() {
		if !from.Who.Guest {
			return from, from, nil
		}
		n, err := a.tree.Find(ctx, a.db, from.Who.Account, id)
		if err != nil || n.IsRoot() {
			return from, from, err
		}
		if _, live, err := a.tree.PathOf(ctx, a.db, n.Parent); err != nil || !live {
			return from, from, errors.Join(drive.Fail(drive.ParentGone), err)
		}
		parent = n.Parent
	}
	to, err = a.authorizeTarget(ctx, who, from, parent, c)
	return from, to, err
}

// MoveExtent measures the subtree of a folder that is moved below parent and renamed to name; a
// zero value keeps the current one. It returns the zero Extent if the new path is neither deeper
// nor longer, so that renaming a folder of a million files does not read a million rows. A missing
// parent is not an error; the transaction refuses it. Call MoveExtent before the transaction that
// moves the folder, or in it if the measurement may be outdated.
func (f *Files) MoveExtent(ctx context.Context, q sqldb.Querier, who drive.Who, id, parent drive.NodeID, name drive.Name) (tree.Extent, error) {
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

// InvalidateRights invalidates cached access decisions after tx has moved n: when tx commits, those
// of this process; other instances notice by polling. It does nothing if n is a file or its account
// has no grants. With several instances it locks a row until tx ends.
func (f *Files) InvalidateRights(ctx context.Context, tx *sqldb.Tx, n tree.Node) error {
	if !n.IsFolder() {
		return nil
	}
	return f.opt.Access.InvalidateIfGranted(ctx, tx, n.Account)
}

// change checks e, runs fn in one transaction of p's account, and returns the view of the node that
// fn returns.
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
		view, err = f.builder(tx).forPass(p).view(ctx, n)
		return err
	})
	return view, err
}
