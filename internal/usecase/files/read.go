package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/tree"
)

// RootID is accepted as the id of the caller's root folder.
const RootID = "root"

// ParseNode parses a node id as the API accepts it: a UUID, or RootID for the caller's root folder.
// Other text is BadRequest.
func (f *Files) ParseNode(ctx context.Context, who drive.Who, s string) (drive.NodeID, error) {
	if s == RootID {
		return f.opt.Tree.Root(ctx, f.opt.DB.For(who.Account), who.Account)
	}
	return drive.ParseID[drive.NodeID](s)
}

// Account returns the account of the space named by place, of which the caller is a member, or the
// caller's own if place is empty. A shared folder is NotFound.
func (f *Files) Account(ctx context.Context, who drive.Who, place string) (drive.AccountID, error) {
	p, err := f.authorizeAccount(ctx, who, place, access.Upload)
	if drive.IsKind(err, drive.Forbidden) { // a viewer lacks the right and may still know the account
		err = nil
	}
	return p.Who.Account, err
}

// Get returns a live or trashed node by id. NotFound: the node does not exist, or the caller may
// not see it.
func (f *Files) Get(ctx context.Context, who drive.Who, id drive.NodeID) (NodeView, error) {
	p, err := f.authorize(ctx, who, id, access.Look)
	if err != nil {
		return NodeView{}, err
	}
	q := f.opt.DB.For(p.Who.Account)
	n, err := f.opt.Tree.Find(ctx, q, p.Who.Account, id)
	if err != nil {
		return NodeView{}, err
	}
	return f.builder(q).forPass(p).view(ctx, n)
}

// GetByPath returns the live node at an address. It returns NotFound if there is none or the caller
// may not see it.
func (f *Files) GetByPath(ctx context.Context, who drive.Who, at drive.Address) (NodeView, error) {
	p, n, rest, err := f.authorizePath(ctx, who, at, access.Look)
	if err == nil && len(rest) > 0 {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return NodeView{}, err
	}
	return f.builder(f.opt.DB.For(p.Who.Account)).forPass(p).view(ctx, n)
}

// Page is one page of a list. NextCursor is null on the last page.
type Page[Item any] struct {
	Items      []Item
	NextCursor *string
}

// newPage returns a page of items; an empty next marks the last page.
func newPage[Item any](items []Item, next string) Page[Item] {
	if items == nil {
		items = []Item{}
	}
	if next == "" {
		return Page[Item]{Items: items}
	}
	return Page[Item]{Items: items, NextCursor: &next}
}

// Children lists the children of a folder, page by page; of a trashed folder, its former children.
// A file is BadRequest.
func (f *Files) Children(ctx context.Context, who drive.Who, id drive.NodeID, l tree.List) (Page[NodeView], error) {
	p, err := f.authorize(ctx, who, id, access.List)
	if err != nil {
		return Page[NodeView]{}, err
	}
	q := f.opt.DB.For(p.Who.Account)
	folder, err := f.opt.Tree.Find(ctx, q, p.Who.Account, id)
	if err != nil {
		return Page[NodeView]{}, err
	}
	if !folder.IsFolder() {
		return Page[NodeView]{}, drive.BadField("id", drive.NotAllowed, "allowed", []tree.Type{tree.TypeFolder}, "sent", folder.Type)
	}
	page, err := f.opt.Tree.Children(ctx, q, id, l)
	if err == nil {
		page.Items, err = f.visibleChildren(ctx, p, page.Items)
	}
	if err != nil {
		return Page[NodeView]{}, err
	}
	views, err := f.builder(q).forPass(p).all(ctx, page.Items)
	return newPage(views, page.Next), err
}

// ListTrash lists the trash of a space, or of the caller's own drive if space is empty, newest
// first. The order in l is ignored.
func (f *Files) ListTrash(ctx context.Context, who drive.Who, space string, l tree.List) (Page[NodeView], error) {
	p, err := f.authorizeAccount(ctx, who, space, access.List)
	if err != nil {
		return Page[NodeView]{}, err
	}
	page, err := f.opt.Tree.ListTrash(ctx, f.opt.DB.For(p.Who.Account), p.Who.Account, l)
	if err != nil {
		return Page[NodeView]{}, err
	}
	return f.builder(f.opt.DB.For(p.Who.Account)).forPass(p).visiblePage(ctx, page)
}

// ChangeView is one entry of the change feed: the current state of a node, or the id of a node that
// was deleted or that the caller cannot see.
type ChangeView struct {
	Seq     int64
	Node    *NodeView
	Deleted *drive.NodeID
	// For a caller with a partial view of the account, digests replace ids: the lower-case hex
	// SHA-256 of the id's text. A client that has seen the node recognizes it; others learn
	// nothing.
	OutOfView     string // the node exists and is not visible to the caller: no reason to delete other data
	DeletedDigest string // the node was deleted
}

// ChangePage is one page of the change feed. The client passes Next as after in its following
// request, even if More is false.
type ChangePage struct {
	Items []ChangeView
	Next  string
	More  bool
}

// Changes lists the changes of a space, or of the caller's own drive if space is empty, after a
// position (empty: from the beginning); see tree.Changes. Here trashed_at is only set on the top of
// a trashed subtree: its descendants are not repeated when it is trashed or restored. A node that
// is being purged, or belongs to an incomplete copy, has trashed_at set and an empty path. It fails
// with Gone {reason: feed-expired} if the position is too old; the client then reads from the
// beginning.
func (f *Files) Changes(ctx context.Context, who drive.Who, space, after string, limit int) (ChangePage, error) {
	p, err := f.authorizeAccount(ctx, who, space, access.List)
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
	show := f.builder(q).forPass(p)
	if show.spots, err = f.visibleSpots(ctx, p, changedNodes(feed)); err != nil {
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

// digestOf returns the lower-case hex SHA-256 of the id's text.
func digestOf(id drive.NodeID) string {
	sum := sha256.Sum256([]byte(id.String()))
	return hex.EncodeToString(sum[:])
}

// changedNodes returns the nodes of a feed page, without the deleted ones.
func changedNodes(feed tree.Feed) (nodes []tree.Node) {
	for _, c := range feed.Items {
		if c.Deleted.IsZero() {
			nodes = append(nodes, c.Node)
		}
	}
	return nodes
}
