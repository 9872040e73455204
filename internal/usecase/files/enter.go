package files

import (
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// doors let callers in: who may do what at a node, and on whose account they act then.
type doors struct {
	access *access.Access
	tree   *tree.Tree
	db     *sqldb.DB
}

// enter lets the caller do something at a node: the Who of the pass acts on the node's account.
func (d *doors) enter(ctx context.Context, who drive.Who, id drive.NodeID, use access.Use) (access.Pass, error) {
	return d.access.Enter(ctx, d.db, who, id, use)
}

// enterFolder is enter for the folder that something goes to: one that the caller may not see is
// ParentGone, as one that is not there.
func (d *doors) enterFolder(ctx context.Context, who drive.Who, id drive.NodeID, use access.Use) (access.Pass, error) {
	p, err := d.enter(ctx, who, id, use)
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Wrap(err, drive.ParentGone)
	}
	return p, err
}

// enterPath is enter for the node at an address; with what there is not of the path yet.
func (d *doors) enterPath(ctx context.Context, who drive.Who, at drive.Address, use access.Use) (p access.Pass, n tree.Node, rest drive.Path, err error) {
	to, err := d.access.Find(ctx, d.db, who, at)
	if err != nil {
		return p, n, nil, err
	}
	q := d.db.For(to.Account)
	if n, rest, err = d.tree.Deepest(ctx, q, to.Account, to.Path); err != nil {
		return p, n, nil, err
	}
	if to.Account == who.Account {
		return access.Pass{Who: who, Node: n.ID, Rights: access.All}, n, rest, nil
	}
	p, err = d.enter(ctx, who, n.ID, use)
	return p, n, rest, err
}

// enterAccount lets the caller do something to an account as a whole: the one of a space, or their
// own when place is empty.
func (d *doors) enterAccount(ctx context.Context, who drive.Who, place string, use access.Use) (access.Pass, error) {
	if place == "" {
		return access.Pass{Who: who, Rights: access.All}, nil
	}
	p, _, _, err := d.enterPath(ctx, who, drive.Address{Place: place, Path: drive.Path{}}, use)
	if err == nil && p.Who.Guest && p.Space == "" { // a folder has no trash and no feed of its own
		err = drive.Fail(drive.NotFound)
	}
	return p, err
}

// ViewFor shows a node as the caller sees it.
func (f *Files) ViewFor(ctx context.Context, q sqldb.Querier, who drive.Who, n tree.Node) (NodeView, error) {
	if n.Account == who.Account {
		return f.View(ctx, q, n)
	}
	p, err := f.opt.Access.At(ctx, q, who, n.ID)
	if err != nil {
		return NodeView{}, err
	}
	return f.viewer(q).as(p).view(ctx, n)
}

// ViewOf shows a node that was read before, as it was then.
func ViewOf(ctx context.Context, f *Files, who drive.Who, n tree.Node) (NodeView, error) {
	return f.ViewFor(ctx, f.opt.DB.For(n.Account), who, n)
}

// Account returns the account of a space that the caller is a member of, or their own when place is
// empty.
func (d *doors) Account(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	p, err := d.enterAccount(ctx, who, place, access.Upload)
	if drive.IsKind(err, drive.Forbidden) { // a viewer, who has none
		err = nil
	}
	return p.Who.Account, err
}

// as makes v the view of the one whose pass it is.
func (v *viewer) as(p access.Pass) *viewer {
	v.pass = p
	return v
}

// masked returns the path and the parent of a node as a guest may know them: what lies above the
// folder from which the guest sees it is not told.
func (v *viewer) masked(n tree.Node, path drive.Path) (string, *drive.NodeID) {
	parent := &n.Parent
	if n.IsRoot() {
		parent = nil
	}
	if !v.pass.Who.Guest {
		return path.String(), parent
	}
	top, place, cut := v.pass.Top, v.pass.Place(), 0
	spot, known := v.spots[n.ID]
	switch {
	case v.pass.Space != "": // all of it is below the root
	case known:
		top, place, cut = spot.Top, spot.Top.String(), len(path)-spot.Level
	case n.ID == v.pass.Node:
		cut = len(path) - v.pass.Level
	default: // a child
		cut = len(path) - 1 - v.pass.Level
	}
	if n.ID == top {
		parent = nil
	}
	return drive.Address{Place: place, Path: path[max(0, min(cut, len(path))):]}.String(), parent
}

// seesAll refuses what is about all that is below a folder to somebody from whom a part is hidden.
func (d *doors) seesAll(ctx context.Context, q sqldb.Querier, p access.Pass, folder drive.NodeID) error {
	lens, err := d.access.Lens(ctx, q, p)
	if err != nil {
		return err
	}
	for _, dark := range lens.Hidden() {
		switch _, _, err := d.tree.Within(ctx, q, p.Who.Account, folder, dark); {
		case err == nil:
			return drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(access.Manager))
		case !drive.IsKind(err, drive.NotFound):
			return err
		}
	}
	return nil
}

// seenChildren leaves out what the caller may not see of the children of a folder that they see.
func (d *doors) seenChildren(ctx context.Context, p access.Pass, nodes []tree.Node) ([]tree.Node, error) {
	lens, err := d.access.Lens(ctx, d.db, p)
	if err != nil || !p.Who.Guest {
		return nodes, err
	}
	return slices.DeleteFunc(nodes, func(n tree.Node) bool { return !lens.ShowsChild(n.ID) }), nil
}

// spots tells, of nodes anywhere in the account, which ones the caller sees and from where; nil:
// all of them, from the root.
func (d *doors) spots(ctx context.Context, p access.Pass, nodes []tree.Node) (map[drive.NodeID]access.Spot, error) {
	if !p.Who.Guest {
		return nil, nil
	}
	lens, err := d.access.Lens(ctx, d.db, p)
	if err != nil || p.Space != "" && !lens.Narrows(p.Top) {
		return nil, err
	}
	ids := make([]drive.NodeID, len(nodes))
	for i, n := range nodes {
		ids[i] = n.ID
	}
	spots, err := lens.Spots(ctx, d.db, ids)
	if spots == nil && err == nil {
		spots = map[drive.NodeID]access.Spot{}
	}
	return spots, err
}

// seen shows those nodes of a page that the caller sees, wherever they are.
func (v *viewer) seen(ctx context.Context, page tree.Page) (_ Page[NodeView], err error) {
	if v.spots, err = v.f.spots(ctx, v.pass, page.Items); err != nil {
		return Page[NodeView]{}, err
	}
	if v.spots != nil {
		page.Items = slices.DeleteFunc(page.Items, func(n tree.Node) bool { return !v.spots[n.ID].Seen })
	}
	views, err := v.all(ctx, page.Items)
	return pageOf(views, page.Next), err
}
