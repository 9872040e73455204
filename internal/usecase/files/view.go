package files

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/content"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// NodeView is a node as the native API shows it.
type NodeView struct {
	ID        drive.NodeID      `json:"id"`
	ParentID  *drive.NodeID     `json:"parent_id"` // null: the root
	Name      string            `json:"name"`
	Path      string            `json:"path"` // of a node in the trash: the one it had; //PLACE/... outside of the caller's own drive
	Type      tree.Type         `json:"type"`
	Size      int64             `json:"size"` // bytes; of a folder 0
	Mime      string            `json:"mime"`
	MTime     drive.Time        `json:"mtime"`
	CreatedAt drive.Time        `json:"created_at"`
	UpdatedAt drive.Time        `json:"updated_at"`
	Rev       int64             `json:"rev"`
	Seq       int64             `json:"seq"`
	Digests   map[string]string `json:"digests"`    // algorithm to lower-case hex: blake3, and the aliases that were verified
	TrashedAt *drive.Time       `json:"trashed_at"` // also of what lies in a trashed folder

	// Role is what the caller is at a node that was asked for on its own, outside of their own
	// drive.
	Role access.Role `json:"role,omitempty" enum:"viewer,uploader,editor,manager"` // the caller's; only for one node, in a space or shared folder

	// Version is the current version of a file; the contract does not show it.
	Version drive.VersionID `json:"-"`
}

// display shows nodes to callers.
type display struct {
	*doors
	content content.Content
}

// View shows a node.
func (s *display) View(ctx context.Context, q sqldb.Querier, n tree.Node) (NodeView, error) {
	return s.viewer(q).view(ctx, n)
}

// ViewAt shows a live node whose folder is known to be at a path. known are the digests of its
// content; nil: they are looked up.
func (s *display) ViewAt(ctx context.Context, q sqldb.Querier, n tree.Node, folder drive.Path, known digest.Set) (NodeView, error) {
	v := s.viewer(q)
	v.folders[n.Parent] = tree.Spot{Path: folder}
	if known != nil {
		v.digests = map[drive.BlobID]digest.Set{n.Blob: known}
	}
	return v.view(ctx, n)
}

// ViewFor shows a node as the caller sees it.
func (s *display) ViewFor(ctx context.Context, q sqldb.Querier, who drive.Who, n tree.Node) (NodeView, error) {
	if n.Account == who.Account {
		return s.View(ctx, q, n)
	}
	p, err := s.access.At(ctx, q, who, n.ID)
	if err != nil {
		return NodeView{}, err
	}
	return s.viewer(q).as(p).view(ctx, n)
}

// ViewOf shows a node that was read before, as it was then.
func (s *display) ViewOf(ctx context.Context, who drive.Who, n tree.Node) (NodeView, error) {
	return s.ViewFor(ctx, s.db.For(n.Account), who, n)
}

// ViewMany shows many nodes; those that they have in common are read once. A node that has gone
// since it was read, or whose folder has, is missing. known are digests of contents, those that the
// caller has; the others are looked up.
func (s *display) ViewMany(ctx context.Context, q sqldb.Querier, nodes []tree.Node, known map[drive.BlobID]digest.Set) (map[drive.NodeID]NodeView, error) {
	v := s.viewer(q)
	if err := v.fetch(ctx, nodes, known); err != nil {
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

// ViewMine is ViewMany of nodes of the caller's own drive.
func (s *display) ViewMine(ctx context.Context, who drive.Who, nodes []tree.Node) (map[drive.NodeID]NodeView, error) {
	return s.ViewMany(ctx, s.db.For(who.Account), nodes, nil)
}

// ViewTops shows nodes that are shared with the caller by name, as these see them: what is above
// them is not told.
func (s *display) ViewTops(ctx context.Context, nodes []tree.Node) (map[drive.NodeID]NodeView, error) {
	views, err := s.ViewMany(ctx, s.db, nodes, nil)
	for id, v := range views {
		v.ParentID, v.Path = nil, drive.Address{Place: id.String()}.String()
		views[id] = v
	}
	return views, err
}

// ViewRoots shows the roots of drives and spaces to whoever may see them, by id.
func (s *display) ViewRoots(ctx context.Context, roots []drive.NodeID) (map[drive.NodeID]NodeView, error) {
	found, err := tree.ByID(ctx, s.tree, s.db, roots...)
	if err != nil {
		return nil, err
	}
	return s.ViewMany(ctx, s.db, slices.Collect(maps.Values(found)), nil)
}

// answer shows a node that a transaction made and runs its hook.
func (s *display) answer(ctx context.Context, tx *sqldb.Tx, p access.Pass, n tree.Node, hook Hook) (Result, error) {
	view, err := s.viewer(tx).as(p).view(ctx, n)
	if err != nil {
		return Result{}, err
	}
	r := Result{Node: &view}
	return r, hook.run(ctx, tx, r)
}

// viewer shows the nodes of one answer and reads the place of each folder once.
type viewer struct {
	*display
	q       sqldb.Querier
	folders map[drive.NodeID]tree.Spot
	digests map[drive.BlobID]digest.Set
	pass    access.Pass                  // whose view it is; zero: the owner's
	spots   map[drive.NodeID]access.Spot // of a guest: from where each node is seen; nil: as the pass says
}

func (s *display) viewer(q sqldb.Querier) *viewer {
	return &viewer{display: s, q: q, folders: map[drive.NodeID]tree.Spot{}}
}

// fetch reads what nodes that are to be shown have in common, by a few statements.
func (v *viewer) fetch(ctx context.Context, nodes []tree.Node, known map[drive.BlobID]digest.Set) (err error) {
	unknown := slices.DeleteFunc(blobsOf(nodes), func(id drive.BlobID) bool { return known[id] != nil })
	if v.folders, err = v.tree.SpotsOf(ctx, v.q, nodes); err == nil {
		v.digests, err = v.content.AliasesOf(ctx, v.q, unknown)
	}
	if err != nil {
		return fmt.Errorf("show %d nodes: %w", len(nodes), err)
	}
	maps.Copy(v.digests, known)
	return nil
}

// all shows many nodes.
func (v *viewer) all(ctx context.Context, nodes []tree.Node) ([]NodeView, error) {
	err := v.fetch(ctx, nodes, nil)
	if err != nil {
		return nil, err
	}
	views := make([]NodeView, len(nodes))
	for i, n := range nodes {
		if views[i], err = v.view(ctx, n); err != nil {
			return nil, err
		}
	}
	return views, nil
}

func (v *viewer) view(ctx context.Context, n tree.Node) (NodeView, error) {
	view := NodeView{
		ID: n.ID, Name: string(n.Name), Path: "/", Type: n.Type, Size: int64(n.Size), Mime: n.Mime, MTime: n.MTime,
		CreatedAt: n.Created, UpdatedAt: n.Updated, Rev: n.Rev, Seq: n.Seq, Digests: map[string]string{}, Version: n.Version,
	}
	path := drive.Path{}
	if !n.IsRoot() {
		parent, err := v.folder(ctx, n.Parent)
		if err != nil {
			return NodeView{}, err
		}
		path = append(slices.Clip(parent.Path), n.Name)
		if n.Trashed == 0 {
			n.Trashed = parent.Trashed
		}
	}
	view.Path, view.ParentID = v.masked(n, path)
	if v.pass.Who.Guest && v.pass.Node == n.ID {
		view.Role = v.pass.Rights.Role()
	}
	if n.Trashed != 0 {
		view.TrashedAt = &n.Trashed
	}
	if n.Blob.IsZero() {
		return view, nil
	}
	digests, ok := v.digests[n.Blob]
	if !ok {
		var err error
		if digests, err = v.content.Aliases(ctx, v.q, n.Blob); err != nil {
			return NodeView{}, fmt.Errorf("show node %v: %w", n.ID, err)
		}
	}
	view.Digests = digests.Hex()
	return view, nil
}

func (v *viewer) folder(ctx context.Context, id drive.NodeID) (tree.Spot, error) {
	if spot, ok := v.folders[id]; ok {
		return spot, nil
	}
	spot, err := v.tree.Locate(ctx, v.q, id)
	if err == nil {
		v.folders[id] = spot
	}
	return spot, err
}

// as makes v the view of the one whose pass it is.
func (v *viewer) as(p access.Pass) *viewer {
	v.pass = p
	return v
}

// masked returns the path and the parent of a node as a guest may know them: what lies above the
// folder from which the guest sees it is not told.
func (v *viewer) masked(n tree.Node, path drive.Path) (string, *drive.NodeID) {
	parent := &n.Parent
	if n.IsRoot() {
		parent = nil
	}
	if !v.pass.Who.Guest {
		return path.String(), parent
	}
	top, place, cut := v.pass.Top, v.pass.Place(), 0
	spot, known := v.spots[n.ID]
	switch {
	case v.pass.Space != "": // all of it is below the root
	case known:
		top, place, cut = spot.Top, spot.Top.String(), len(path)-spot.Level
	case n.ID == v.pass.Node:
		cut = len(path) - v.pass.Level
	default: // a child
		cut = len(path) - 1 - v.pass.Level
	}
	if n.ID == top {
		parent = nil
	}
	return drive.Address{Place: place, Path: path[max(0, min(cut, len(path))):]}.String(), parent
}

// seen shows those nodes of a page that the caller sees, wherever they are.
func (v *viewer) seen(ctx context.Context, page tree.Page) (_ Page[NodeView], err error) {
	if v.spots, err = v.display.spots(ctx, v.pass, page.Items); err != nil {
		return Page[NodeView]{}, err
	}
	if v.spots != nil {
		page.Items = slices.DeleteFunc(page.Items, func(n tree.Node) bool { return !v.spots[n.ID].Seen })
	}
	views, err := v.all(ctx, page.Items)
	return pageOf(views, page.Next), err
}
