package export

import (
	"context"

	"example.org/smartdrive/internal/domain/tree"

	"example.org/smartdrive/internal/base/drive"
)

// visibility caches by folder id whether a folder is visible, which means that neither the folder
// nor any of its parents is in the trash.
type visibility map[drive.NodeID]bool

// load caches the visibility of the parent folders of nodes, with one statement per tree level and
// some hundred folders.
func (v visibility) load(ctx context.Context, g *core, nodes []tree.Node) error {
	var unknown []tree.Node
	for _, n := range nodes {
		if _, known := v[n.Parent]; !known && n.Trashed == 0 && !n.IsRoot() {
			unknown = append(unknown, n)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	spots, err := g.opt.Tree.LocationsOf(ctx, g.opt.DB, unknown)
	if err != nil {
		return err
	}
	for _, n := range unknown {
		spot, there := spots[n.Parent]
		v[n.Parent] = there && spot.Trashed == 0
	}
	return nil
}

// visible reports whether a node is outside of the trash, as are its ancestors. load must have been
// called for the node.
func (v visibility) visible(n tree.Node) bool {
	return n.Trashed == 0 && (n.IsRoot() || v[n.Parent])
}
