package export

import (
	"context"

	"smartdrive/internal/domain/tree"

	"smartdrive/internal/base/drive"
)

// living knows of folders whether they can be seen: neither they nor a folder above them is in the
// trash. Each is looked at once.
type living map[drive.NodeID]bool

// learn looks at the folders of nodes: one statement for each level and some hundred folders.
func (l living) learn(ctx context.Context, g *ground, nodes []tree.Node) error {
	var unknown []tree.Node
	for _, n := range nodes {
		if _, known := l[n.Parent]; !known && n.Trashed == 0 && !n.IsRoot() {
			unknown = append(unknown, n)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	spots, err := g.opt.Tree.SpotsOf(ctx, g.opt.DB, unknown)
	if err != nil {
		return err
	}
	for _, n := range unknown {
		spot, there := spots[n.Parent]
		l[n.Parent] = there && spot.Trashed == 0
	}
	return nil
}

// has reports whether a node can be seen whose folder was learned.
func (l living) has(n tree.Node) bool {
	return n.Trashed == 0 && (n.IsRoot() || l[n.Parent])
}
