package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
)

// Concurrent searches per account and in total; others wait. Each may read an account's whole name
// index, and SQLite has four readers.
const (
	searchesPerAccount = 1
	searchesInTotal    = 2
)

// Search lists the caller's live nodes that match s, page by page; see tree.Search. If in is not
// empty, it limits the search to the folder at that address: NotFound if nothing is there,
// BadRequest if it is a file.
func (f *Files) Search(ctx context.Context, who drive.Who, in drive.Address, s tree.Search) (Page[NodeView], error) {
	p, caller := access.Pass{Who: who, Rights: access.All}, who.Account
	if in.Place != "" || len(in.Path) > 0 {
		var folder tree.Node
		var rest drive.Path
		var err error
		if p, folder, rest, err = f.authorizePath(ctx, who, in, access.List); err == nil && len(rest) > 0 {
			err = drive.Fail(drive.NotFound)
		}
		if err != nil {
			return Page[NodeView]{}, err
		}
		if !folder.IsFolder() {
			return Page[NodeView]{}, drive.BadField("in", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", folder.Type)
		}
		if s.In = folder.ID; folder.IsRoot() {
			s.In = drive.NodeID{}
		}
		who = p.Who
	}
	end, err := f.searches.Acquire(ctx, caller)
	if err != nil {
		return Page[NodeView]{}, drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	page, err := f.opt.Tree.Search(ctx, f.opt.DB.For(who.Account), who.Account, s)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return f.builder(f.opt.DB.For(p.Who.Account)).forPass(p).visiblePage(ctx, page)
}
