package files

import (
	"context"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/tree"
)

// EachChild calls fn with all that is in a folder, up to tree.MaxLimit nodes at a time. What is in
// it from the beginning of the call to its end is given once, whatever else happens to it: a list
// by pages would miss what is renamed from behind its cursor to before it.
func (f *Files) EachChild(ctx context.Context, who drive.Who, folder drive.NodeID, fn func([]NodeView) error) error {
	page, err := f.Children(ctx, who, folder, tree.List{Limit: tree.MaxLimit})
	if err != nil {
		return err
	}
	if page.NextCursor == nil {
		return fn(page.Items)
	}
	p, err := f.enter(ctx, who, folder, access.List)
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

// childrenByID returns those of ids that are in a folder now, in the order of ids.
func (f *Files) childrenByID(ctx context.Context, who drive.Who, folder drive.NodeID, ids []drive.NodeID) ([]NodeView, error) {
	p, err := f.enter(ctx, who, folder, access.List) // once more: the right may have ended meanwhile
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
	if nodes, err = f.seenChildren(ctx, p, nodes); err != nil {
		return nil, err
	}
	return f.viewer(q).as(p).all(ctx, nodes)
}
