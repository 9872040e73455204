package files

import (
	"context"
	"fmt"
	"slices"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
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

// View shows a node.
func (f *Files) View(ctx context.Context, q sqldb.Querier, n tree.Node) (NodeView, error) {
	return f.viewer(q).view(ctx, n)
}

// ViewAt shows a live node whose folder is known to be at a path. known are the digests of its
// content; nil: they are looked up.
func (f *Files) ViewAt(ctx context.Context, q sqldb.Querier, n tree.Node, folder drive.Path, known digest.Set) (NodeView, error) {
	v := f.viewer(q)
	v.folders[n.Parent] = tree.Spot{Path: folder}
	if known != nil {
		v.digests = map[drive.BlobID]digest.Set{n.Blob: known}
	}
	return v.view(ctx, n)
}

// Views shows many nodes; those that they have in common are read once. A node that has gone since
// it was read, or whose folder has, is missing.
func Views(ctx context.Context, f *Files, q sqldb.Querier, nodes []tree.Node) (map[drive.NodeID]NodeView, error) {
	v := f.viewer(q)
	var err error
	if v.folders, err = f.opt.Tree.SpotsOf(ctx, q, nodes); err != nil {
		return nil, fmt.Errorf("show %d nodes: %w", len(nodes), err)
	}
	if v.digests, err = f.opt.Content.AliasesOf(ctx, q, blobsOf(nodes)); err != nil {
		return nil, fmt.Errorf("show %d nodes: %w", len(nodes), err)
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

// ViewTops shows nodes that are shared with the caller by name, as these see them: what is above
// them is not told.
func ViewTops(ctx context.Context, f *Files, nodes []tree.Node) (map[drive.NodeID]NodeView, error) {
	views, err := Views(ctx, f, f.opt.DB, nodes)
	for id, v := range views {
		v.ParentID, v.Path = nil, drive.Address{Place: id.String()}.String()
		views[id] = v
	}
	return views, err
}

// viewer shows the nodes of one answer and reads the place of each folder once.
type viewer struct {
	f       *Files
	q       sqldb.Querier
	folders map[drive.NodeID]tree.Spot
	digests map[drive.BlobID]digest.Set
	pass    access.Pass                  // whose view it is; zero: the owner's
	spots   map[drive.NodeID]access.Spot // of a guest: from where each node is seen; nil: as the pass says
}

func (f *Files) viewer(q sqldb.Querier) *viewer {
	return &viewer{f: f, q: q, folders: map[drive.NodeID]tree.Spot{}}
}

// all shows many nodes; what they have in common is read by a few statements.
func (v *viewer) all(ctx context.Context, nodes []tree.Node) ([]NodeView, error) {
	var err error
	if v.folders, err = v.f.opt.Tree.SpotsOf(ctx, v.q, nodes); err != nil {
		return nil, fmt.Errorf("show %d nodes: %w", len(nodes), err)
	}
	if v.digests, err = v.f.opt.Content.AliasesOf(ctx, v.q, blobsOf(nodes)); err != nil {
		return nil, fmt.Errorf("show %d nodes: %w", len(nodes), err)
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
		if digests, err = v.f.opt.Content.Aliases(ctx, v.q, n.Blob); err != nil {
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
	spot, err := v.f.opt.Tree.Locate(ctx, v.q, id)
	if err == nil {
		v.folders[id] = spot
	}
	return spot, err
}
