package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// RootID is the word that works as the id of the caller's root folder.
const RootID = "root"

// ParseNode reads a node's id as the API takes it: a UUID, or RootID.
func (f *Files) ParseNode(ctx context.Context, who drive.Who, s string) (drive.NodeID, error) {
	if s == RootID {
		return f.opt.Tree.Root(ctx, f.opt.DB.For(who.Account), who.Account)
	}
	return drive.ParseID[drive.NodeID](s)
}

// Get returns a node by its id, live or in the trash.
func (f *Files) Get(ctx context.Context, who drive.Who, id drive.NodeID) (NodeView, error) {
	n, err := f.opt.Tree.Find(ctx, f.opt.DB.For(who.Account), who.Account, id)
	if err != nil {
		return NodeView{}, err
	}
	return f.View(ctx, f.opt.DB.For(who.Account), n)
}

// GetByPath returns the live node at a path.
func (f *Files) GetByPath(ctx context.Context, who drive.Who, path drive.Path) (NodeView, error) {
	n, err := f.opt.Tree.Resolve(ctx, f.opt.DB.For(who.Account), who.Account, path)
	if err != nil {
		return NodeView{}, err
	}
	return f.View(ctx, f.opt.DB.For(who.Account), n)
}

// Page is a page of a list; a null cursor says that it is the last.
type Page[Item any] struct {
	Items      []Item  `json:"items"`
	NextCursor *string `json:"next_cursor"`
}

func pageOf[Item any](items []Item, next string) Page[Item] {
	if items == nil {
		items = []Item{}
	}
	if next == "" {
		return Page[Item]{Items: items}
	}
	return Page[Item]{Items: items, NextCursor: &next}
}

// Children lists what is in a folder; of a folder in the trash, what was in it. A file is
// BadRequest.
func (f *Files) Children(ctx context.Context, who drive.Who, id drive.NodeID, l tree.List) (Page[NodeView], error) {
	folder, err := f.opt.Tree.Find(ctx, f.opt.DB.For(who.Account), who.Account, id)
	if err != nil {
		return Page[NodeView]{}, err
	}
	if !folder.IsFolder() {
		return Page[NodeView]{}, drive.Bad("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", folder.Type)
	}
	page, err := f.opt.Tree.Children(ctx, f.opt.DB.For(who.Account), id, l)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return f.showPage(ctx, who, page)
}

// ListTrash lists what was put into the trash, the newest first; l's order is not used.
func (f *Files) ListTrash(ctx context.Context, who drive.Who, l tree.List) (Page[NodeView], error) {
	page, err := f.opt.Tree.ListTrash(ctx, f.opt.DB.For(who.Account), who.Account, l)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return f.showPage(ctx, who, page)
}

func (f *Files) showPage(ctx context.Context, who drive.Who, page tree.Page) (Page[NodeView], error) {
	views, err := f.viewer(f.opt.DB.For(who.Account)).all(ctx, page.Items)
	return pageOf(views, page.Next), err
}

// ChangeView is one change: a node as it is now, or the id of one that is gone.
type ChangeView struct {
	Seq     int64         `json:"seq"`
	Node    *NodeView     `json:"node,omitempty"`
	Deleted *drive.NodeID `json:"deleted,omitempty"`
}

// ChangePage is a page of the feed. Next is what to give as after for the following one, whether or
// not there is more.
type ChangePage struct {
	Items []ChangeView `json:"items"`
	Next  string       `json:"next"`
	More  bool         `json:"more"`
}

// Changes lists the changes of the caller's tree after a position (empty: from the beginning); see
// tree.Changes. trashed_at is here the node's own mark: what lies in a trashed folder has none, and
// does not come again when the folder comes back. What is being purged, or is not yet copied in
// full, is shown as trashed, with an empty path.
func (f *Files) Changes(ctx context.Context, who drive.Who, after string, limit int) (ChangePage, error) {
	at, err := tree.ParsePosition(after)
	if err != nil {
		return ChangePage{}, err
	}
	if limit, err = tree.CheckLimit(limit); err != nil {
		return ChangePage{}, err
	}
	feed, err := f.opt.Tree.Changes(ctx, f.opt.DB.For(who.Account), who.Account, at, limit)
	if err != nil {
		return ChangePage{}, err
	}
	page := ChangePage{Items: make([]ChangeView, len(feed.Items)), Next: feed.Next.String(), More: feed.More}
	show := f.viewer(f.opt.DB.For(who.Account))
	for i, c := range feed.Items {
		if page.Items[i], err = show.change(ctx, c); err != nil {
			return ChangePage{}, err
		}
	}
	return page, nil
}
