package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
)

// FolderSum returns the totals below a folder. It fails with BadRequest for a file, and with
// Forbidden if a descendant is hidden from the caller.
func (f *Files) FolderSum(ctx context.Context, who drive.Who, id drive.NodeID) (tree.Sum, error) {
	p, err := f.authorize(ctx, who, id, access.List)
	if err == nil {
		err = f.requireFullView(ctx, f.opt.DB, p, id)
	}
	if err != nil {
		return tree.Sum{}, err
	}
	db := f.opt.DB.For(p.Who.Account)
	n, err := f.opt.Tree.Find(ctx, db, p.Who.Account, id)
	if err != nil {
		return tree.Sum{}, err
	}
	if !n.IsFolder() {
		return tree.Sum{}, drive.BadField("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", n.Type)
	}
	sums, err := f.sums.get(ctx, db, []drive.NodeID{id})
	return sums[id].Sum, err
}
