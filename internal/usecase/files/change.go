package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// change shows one entry of the feed. Between the reading of the feed and this a node's folder or
// content may have gone: the node is then shown without, and the entry that follows tells why.
func (v *viewer) change(ctx context.Context, c tree.Change) (ChangeView, error) {
	if !c.Deleted.IsZero() {
		return ChangeView{Seq: c.Seq, Deleted: &c.Deleted}, nil
	}
	n := c.Node
	hidden := !n.Operation.IsZero()
	if !n.IsRoot() {
		_, err := v.folder(ctx, n.Parent)
		if drive.IsKind(err, drive.NotFound) {
			hidden, v.folders[n.Parent] = true, tree.Spot{}
		}
	}
	view, err := v.view(ctx, n)
	if view.TrashedAt = nil; n.Trashed != 0 {
		view.TrashedAt = &n.Trashed
	}
	if hidden {
		view.Path = ""
		delete(v.folders, n.Parent)
	}
	return ChangeView{Seq: c.Seq, Node: &view}, err
}
