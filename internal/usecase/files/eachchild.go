package files

import (
	"context"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
)

// EachChild calls fn with the children of a folder, up to tree.MaxLimit nodes at a time. It passes
// each child that stays in the folder for the whole call exactly once, even if the child is renamed
// meanwhile; reading by pages would miss a child renamed to a name before the cursor. An error from
// fn ends the call and is returned.
func (f *Files) EachChild(ctx context.Context, who drive.Who, folder drive.NodeID, fn func([]NodeView) error) error {
	page, err := f.Children(ctx, who, folder, tree.List{Limit: tree.MaxLimit})
	if err != nil {
		return err
	}
	if page.NextCursor == nil {
		return fn(page.Items)
	}
	p, err := f.authorize(ctx, who, folder, access.List)
	if err != nil {
		return err
	}
	ids, err := f.opt.Tree.ChildIDs(ctx, f.opt.DB.For(p.Who.Account), folder)
	if err != nil {
		return err
	}
	given := make(map[drive.NodeID]bool, len(page.Items))
	for _, n := range page.Items {
		given[n.ID] = true
	}
	if err := fn(page.Items); err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id drive.NodeID) bool { return given[id] })
	for some := range slices.Chunk(ids, tree.MaxLimit) {
		views, err := f.childrenByID(ctx, who, folder, some)
		if err == nil {
			err = fn(views)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// childrenByID returns the views of those ids that are live children of the folder now and visible
// to the caller, in the order of ids.
func (f *Files) childrenByID(ctx context.Context, who drive.Who, folder drive.NodeID, ids []drive.NodeID) ([]NodeView, error) {
	p, err := f.authorize(ctx, who, folder, access.List) // again, because access may have ended meanwhile
	if err != nil {
		return nil, err
	}
	q := f.opt.DB.For(p.Who.Account)
	found, err := tree.ByID(ctx, f.opt.Tree, q, ids...)
	if err != nil {
		return nil, err
	}
	nodes := make([]tree.Node, 0, len(ids))
	for _, id := range ids {
		if n, ok := found[id]; ok && n.Parent == folder && n.Trashed == 0 {
			nodes = append(nodes, n)
		}
	}
	if nodes, err = f.visibleChildren(ctx, p, nodes); err != nil {
		return nil, err
	}
	return f.builder(q).forPass(p).all(ctx, nodes)
}
