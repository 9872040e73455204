package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
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

// Account returns the account of a space that the caller is a member of, or their own when place is
// empty.
func (f *Files) Account(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	p, err := f.enterAccount(ctx, who, place, access.Upload)
	if drive.IsKind(err, drive.Forbidden) { // a viewer, who has none
		err = nil
	}
	return p.Who.Account, err
}

// Get returns a node by its id, live or in the trash.
func (f *Files) Get(ctx context.Context, who drive.Who, id drive.NodeID) (NodeView, error) {
	p, err := f.enter(ctx, who, id, access.Look)
	if err != nil {
		return NodeView{}, err
	}
	q := f.opt.DB.For(p.Who.Account)
	n, err := f.opt.Tree.Find(ctx, q, p.Who.Account, id)
	if err != nil {
		return NodeView{}, err
	}
	return f.viewer(q).as(p).view(ctx, n)
}

// GetByPath returns the live node at an address.
func (f *Files) GetByPath(ctx context.Context, who drive.Who, at drive.Address) (NodeView, error) {
	p, n, rest, err := f.enterPath(ctx, who, at, access.Look)
	if err == nil && len(rest) > 0 {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return NodeView{}, err
	}
	return f.viewer(f.opt.DB.For(p.Who.Account)).as(p).view(ctx, n)
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
	p, err := f.enter(ctx, who, id, access.List)
	if err != nil {
		return Page[NodeView]{}, err
	}
	q := f.opt.DB.For(p.Who.Account)
	folder, err := f.opt.Tree.Find(ctx, q, p.Who.Account, id)
	if err != nil {
		return Page[NodeView]{}, err
	}
	if !folder.IsFolder() {
		return Page[NodeView]{}, drive.Bad("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", folder.Type)
	}
	page, err := f.opt.Tree.Children(ctx, q, id, l)
	if err == nil {
		page.Items, err = f.seenChildren(ctx, p, page.Items)
	}
	if err != nil {
		return Page[NodeView]{}, err
	}
	views, err := f.viewer(q).as(p).all(ctx, page.Items)
	return pageOf(views, page.Next), err
}

// ListTrash lists what was put into the trash of a space, or the caller's own when there is none
// named, the newest first; l's order is not used.
func (f *Files) ListTrash(ctx context.Context, who drive.Who, space string, l tree.List) (Page[NodeView], error) {
	p, err := f.enterAccount(ctx, who, space, access.List)
	if err != nil {
		return Page[NodeView]{}, err
	}
	page, err := f.opt.Tree.ListTrash(ctx, f.opt.DB.For(p.Who.Account), p.Who.Account, l)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return f.viewer(f.opt.DB.For(p.Who.Account)).as(p).seen(ctx, page)
}

// ChangeView is one change: a node as it is now, or the id of one that is gone, or that the caller
// does not see where it is now.
type ChangeView struct {
	Seq     int64         `json:"seq"`
	Node    *NodeView     `json:"node,omitempty"`
	Deleted *drive.NodeID `json:"deleted,omitempty"`
	// Of somebody who does not see all of a space, in the place of an id: the lower-case hex
	// SHA-256 of its text. Who has seen the node knows it by that, and who has not learns nothing
	// of it.
	OutOfView     string `json:"out_of_view,omitempty"`    // it is there, for others: no reason to delete anything
	DeletedDigest string `json:"deleted_digest,omitempty"` // it is gone
}

// ChangePage is a page of the feed. Next is what to give as after for the following one, whether or
// not there is more.
type ChangePage struct {
	Items []ChangeView `json:"items"`
	Next  string       `json:"next"`
	More  bool         `json:"more"`
}

// Changes lists the changes of a space, or of the caller's own tree when there is none named, after
// a position (empty: from the beginning); see tree.Changes. trashed_at is here the node's own mark:
// what lies in a trashed folder has none, and does not come again when the folder comes back. What
// is being purged, or is not yet copied in full, is shown as trashed, with an empty path.
func (f *Files) Changes(ctx context.Context, who drive.Who, space, after string, limit int) (ChangePage, error) {
	p, err := f.enterAccount(ctx, who, space, access.List)
	if err != nil {
		return ChangePage{}, err
	}
	at, err := f.parsePosition(after)
	if err != nil {
		return ChangePage{}, err
	}
	if limit, err = tree.CheckLimit(limit); err != nil {
		return ChangePage{}, err
	}
	q := f.opt.DB.For(p.Who.Account)
	feed, err := f.opt.Tree.Changes(ctx, q, p.Who.Account, at, limit)
	if err != nil {
		return ChangePage{}, err
	}
	page := ChangePage{Items: make([]ChangeView, len(feed.Items)), Next: f.position(feed.Next), More: feed.More}
	show := f.viewer(q).as(p)
	if show.spots, err = f.spots(ctx, p, changed(feed)); err != nil {
		return ChangePage{}, err
	}
	for i, c := range feed.Items {
		switch {
		case show.spots == nil:
		case !c.Deleted.IsZero():
			page.Items[i] = ChangeView{Seq: c.Seq, DeletedDigest: digestOf(c.Deleted)}
			continue
		case !show.spots[c.Node.ID].Seen:
			page.Items[i] = ChangeView{Seq: c.Seq, OutOfView: digestOf(c.Node.ID)}
			continue
		}
		if page.Items[i], err = show.change(ctx, c); err != nil {
			return ChangePage{}, err
		}
	}
	return page, nil
}

func digestOf(id drive.NodeID) string {
	sum := sha256.Sum256([]byte(id.String()))
	return hex.EncodeToString(sum[:])
}

// changed are the nodes of a feed, those that are gone excepted.
func changed(feed tree.Feed) (nodes []tree.Node) {
	for _, c := range feed.Items {
		if c.Deleted.IsZero() {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}
