package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// How many searches run at a time: each may read an account's whole index of names, and SQLite has
// four readers. Others wait.
const (
	searchesEach   = 2
	searchesAtOnce = 3
)

// Search lists the caller's live nodes that s describes; see tree.Search for what a page is. s.In
// is the folder at a path, if there is one: NotFound when nothing is there, BadRequest when it is a
// file.
func (f *Files) Search(ctx context.Context, who drive.Who, in drive.Path, s tree.Search) (Page[NodeView], error) {
	if len(in) > 0 {
		folder, err := f.opt.Tree.Resolve(ctx, f.opt.DB.For(who.Account), who.Account, in)
		if err != nil {
			return Page[NodeView]{}, err
		}
		if !folder.IsFolder() {
			return Page[NodeView]{}, drive.Bad("in", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", folder.Type)
		}
		s.In = folder.ID
	}
	end, err := f.searches.Take(ctx, who.Account)
	if err != nil {
		return Page[NodeView]{}, drive.Wrap(err, drive.Unavailable)
	}
	defer end()
	page, err := f.opt.Tree.Search(ctx, f.opt.DB.For(who.Account), who.Account, s)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return f.showPage(ctx, who, page)
}
