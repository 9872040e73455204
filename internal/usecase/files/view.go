package files

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/content"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// NodeView is a node with its path and digests as a caller sees it.
type NodeView struct {
	ID        drive.NodeID
	ParentID  *drive.NodeID // null: the root, or hidden from the caller
	Name      string
	Path      string // of a trashed node: its former path; //PLACE/... outside of the caller's own drive
	Type      tree.Type
	Size      int64 // bytes; 0 for a folder
	Mime      string
	MTime     drive.Time
	CreatedAt drive.Time
	UpdatedAt drive.Time
	Rev       int64
	Seq       int64
	Digests   map[string]string // algorithm to lower-case hex: blake3, and verified aliases
	TrashedAt *drive.Time       // also set on descendants of a trashed folder

	// Role is the caller's role at a node requested on its own, outside of the caller's own drive.
	Role access.Role // only in a response for one node, in a space or shared folder

	// Version is the current version of a file; package rest does not send it.
	Version drive.VersionID
}

// presenter builds the views of nodes that callers receive.
type presenter struct {
	*authorizer
	content content.Content
}

// View returns the view of a node as its owner sees it, reading path and digests from q. It checks
// no rights.
func (d *presenter) View(ctx context.Context, q sqldb.Querier, n tree.Node) (NodeView, error) {
	return d.builder(q).view(ctx, n)
}

// ViewAt returns the view of a live node whose folder is at the given path. known are the digests
// of its content; nil: they are looked up.
func (d *presenter) ViewAt(ctx context.Context, q sqldb.Querier, n tree.Node, folder drive.Path, known digest.Set) (NodeView, error) {
	v := d.builder(q)
	v.folders[n.Parent] = tree.Location{Path: folder}
	if known != nil {
		v.digests = map[drive.BlobID]digest.Set{n.Blob: known}
	}
	return v.view(ctx, n)
}

// ViewFor returns the view of a node as the caller sees it. It fails with NotFound if the caller
// may not see the node.
func (d *presenter) ViewFor(ctx context.Context, q sqldb.Querier, who drive.Who, n tree.Node) (NodeView, error) {
	if n.Account == who.Account {
		return d.View(ctx, q, n)
	}
	p, err := d.access.At(ctx, q, who, n.ID)
	if err != nil {
		return NodeView{}, err
	}
	return d.builder(q).forPass(p).view(ctx, n)
}

// ViewOf returns the view of a node that was read earlier, from the database of its account.
func (d *presenter) ViewOf(ctx context.Context, who drive.Who, n tree.Node) (NodeView, error) {
	return d.ViewFor(ctx, d.db.For(n.Account), who, n)
}

// ViewMany returns the views of many nodes by id, with few statements. A node whose folder was
// deleted meanwhile is missing. known holds digests by blob; missing ones are looked up.
func (d *presenter) ViewMany(ctx context.Context, q sqldb.Querier, nodes []tree.Node, known map[drive.BlobID]digest.Set) (map[drive.NodeID]NodeView, error) {
	v := d.builder(q)
	if err := v.prefetch(ctx, nodes, known); err != nil {
		return nil, err
	}
	views := make(map[drive.NodeID]NodeView, len(nodes))
	for _, n := range nodes {
		if _, there := v.folders[n.Parent]; !there && !n.IsRoot() {
			continue
		}
		view, err := v.view(ctx, n)
		if err != nil {
			return nil, err
		}
		views[n.ID] = view
	}
	return views, nil
}

// ViewMine returns the views of nodes of the caller's own drive by id, with few statements. A node
// whose folder was deleted meanwhile is missing.
func (d *presenter) ViewMine(ctx context.Context, who drive.Who, nodes []tree.Node) (map[drive.NodeID]NodeView, error) {
	return d.ViewMany(ctx, d.db.For(who.Account), nodes, nil)
}

// ViewTops returns the views of nodes that are shared with the caller, by id. Parent and path above
// them are hidden.
func (d *presenter) ViewTops(ctx context.Context, nodes []tree.Node) (map[drive.NodeID]NodeView, error) {
	views, err := d.ViewMany(ctx, d.db, nodes, nil)
	for id, v := range views {
		v.ParentID, v.Path = nil, drive.Address{Place: id.String()}.String()
		views[id] = v
	}
	return views, err
}

// ViewRoots returns the views of root folders by id; missing ones are absent. It checks no rights:
// the caller must be allowed to see them.
func (d *presenter) ViewRoots(ctx context.Context, roots []drive.NodeID) (map[drive.NodeID]NodeView, error) {
	found, err := tree.ByID(ctx, d.tree, d.db, roots...)
	if err != nil {
		return nil, err
	}
	return d.ViewMany(ctx, d.db, slices.Collect(maps.Values(found)), nil)
}

// result returns a Result with the view of a node that tx created, after running hook.
func (d *presenter) result(ctx context.Context, tx *sqldb.Tx, p access.Pass, n tree.Node, hook Hook) (Result, error) {
	view, err := d.builder(tx).forPass(p).view(ctx, n)
	if err != nil {
		return Result{}, err
	}
	r := Result{Node: &view}
	return r, hook.run(ctx, tx, r)
}

// viewBuilder builds the node views of one response and caches folder locations.
type viewBuilder struct {
	*presenter
	q       sqldb.Querier
	folders map[drive.NodeID]tree.Location
	digests map[drive.BlobID]digest.Set
	pass    access.Pass                        // authorization the views are built for; zero: the owner's
	spots   map[drive.NodeID]access.Visibility // of a guest: the shared top from which each node is seen; nil: derived from pass
}

// builder returns a viewBuilder that reads from q.
func (d *presenter) builder(q sqldb.Querier) *viewBuilder {
	return &viewBuilder{presenter: d, q: q, folders: map[drive.NodeID]tree.Location{}}
}

// prefetch reads the folder locations and digests of the nodes with few statements and caches them
// in b. known are digests that need not be read.
func (b *viewBuilder) prefetch(ctx context.Context, nodes []tree.Node, known map[drive.BlobID]digest.Set) (err error) {
	unknown := slices.DeleteFunc(blobsOf(nodes), func(id drive.BlobID) bool { return known[id] != nil })
	if b.folders, err = b.tree.LocationsOf(ctx, b.q, nodes); err == nil {
		b.digests, err = b.content.AliasesMany(ctx, b.q, unknown)
	}
	if err != nil {
		return fmt.Errorf("show %d nodes: %w", len(nodes), err)
	}
	maps.Copy(b.digests, known)
	return nil
}

// all returns the views of the nodes, in their order, after it has read their data with few
// statements.
func (b *viewBuilder) all(ctx context.Context, nodes []tree.Node) ([]NodeView, error) {
	err := b.prefetch(ctx, nodes, nil)
	if err != nil {
		return nil, err
	}
	views := make([]NodeView, len(nodes))
	for i, n := range nodes {
		if views[i], err = b.view(ctx, n); err != nil {
			return nil, err
		}
	}
	return views, nil
}

// view returns the view of one node and reads the data that prefetch has not cached. It fails with
// NotFound if the node's folder was deleted.
func (b *viewBuilder) view(ctx context.Context, n tree.Node) (NodeView, error) {
	view := NodeView{
		ID: n.ID, Name: string(n.Name), Path: "/", Type: n.Type, Size: int64(n.Size), Mime: n.Mime, MTime: n.MTime,
		CreatedAt: n.Created, UpdatedAt: n.Updated, Rev: n.Rev, Seq: n.Seq, Digests: map[string]string{}, Version: n.Version,
	}
	path := drive.Path{}
	if !n.IsRoot() {
		parent, err := b.folder(ctx, n.Parent)
		if err != nil {
			return NodeView{}, err
		}
		path = append(slices.Clip(parent.Path), n.Name)
		if n.Trashed == 0 {
			n.Trashed = parent.Trashed
		}
	}
	view.Path, view.ParentID = b.maskPath(n, path)
	if b.pass.Who.Guest && b.pass.Node == n.ID {
		view.Role = b.pass.Rights.Role()
	}
	if n.Trashed != 0 {
		view.TrashedAt = &n.Trashed
	}
	if n.Blob.IsZero() {
		return view, nil
	}
	digests, ok := b.digests[n.Blob]
	if !ok {
		var err error
		if digests, err = b.content.Aliases(ctx, b.q, n.Blob); err != nil {
			return NodeView{}, fmt.Errorf("show node %v: %w", n.ID, err)
		}
	}
	view.Digests = digests.Hex()
	return view, nil
}

// folder returns the location of a folder, from the cache if possible. It fails with NotFound if
// the folder does not exist or is being deleted permanently; errors are not cached.
func (b *viewBuilder) folder(ctx context.Context, id drive.NodeID) (tree.Location, error) {
	if spot, ok := b.folders[id]; ok {
		return spot, nil
	}
	spot, err := b.tree.Locate(ctx, b.q, id)
	if err == nil {
		b.folders[id] = spot
	}
	return spot, err
}

// forPass sets the authorization that views are built for and returns b.
func (b *viewBuilder) forPass(p access.Pass) *viewBuilder {
	b.pass = p
	return b
}

// maskPath returns the path and the parent id of a node as the caller may see them. For a guest
// both start at the shared top; folders above it stay hidden.
func (b *viewBuilder) maskPath(n tree.Node, path drive.Path) (string, *drive.NodeID) {
	parent := &n.Parent
	if n.IsRoot() {
		parent = nil
	}
	if !b.pass.Who.Guest {
		return path.String(), parent
	}
	top, place, cut := b.pass.Top, b.pass.Place(), 0
	spot, known := b.spots[n.ID]
	switch {
	case b.pass.Space != "": // all of it is below the root
	case known:
		top, place, cut = spot.Top, spot.Top.String(), len(path)-spot.Level
	case n.ID == b.pass.Node:
		cut = len(path) - b.pass.Level
	default: // a child
		cut = len(path) - 1 - b.pass.Level
	}
	if n.ID == top {
		parent = nil
	}
	return drive.Address{Place: place, Path: path[max(0, min(cut, len(path))):]}.String(), parent
}

// visiblePage returns the views of those nodes of a page that the caller may see, with the cursor
// of the next page; so a page may be empty and not the last. It reuses page.Items.
func (b *viewBuilder) visiblePage(ctx context.Context, page tree.Page) (_ Page[NodeView], err error) {
	if b.spots, err = b.visibleSpots(ctx, b.pass, page.Items); err != nil {
		return Page[NodeView]{}, err
	}
	if b.spots != nil {
		page.Items = slices.DeleteFunc(page.Items, func(n tree.Node) bool { return !b.spots[n.ID].Seen })
	}
	views, err := b.all(ctx, page.Items)
	return newPage(views, page.Next), err
}
