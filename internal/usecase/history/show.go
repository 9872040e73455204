package history

import (
	"context"
	"encoding/json"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// pageData holds the users, nodes and locations that a page of entries refers to, each read once.
type pageData struct {
	names map[drive.UserID]string
	nodes map[drive.NodeID]tree.Node
	spots map[drive.NodeID]tree.Location
}

// show returns the API form of entries in their order, for the viewer s. It fails only if a query
// does.
func (h *History) show(ctx context.Context, q sqldb.Querier, s viewer, entries []activity.Entry) ([]Entry, error) {
	around, err := h.loadPageData(ctx, q, entries)
	if err != nil {
		return nil, err
	}
	items := make([]Entry, len(entries))
	for i, e := range entries {
		items[i] = around.happened(s, e)
	}
	return items, nil
}

// loadPageData reads the names of users, and the nodes with their locations, for entries with few
// statements. What no longer exists is not in the result.
func (h *History) loadPageData(ctx context.Context, q sqldb.Querier, entries []activity.Entry) (around pageData, err error) {
	users, nodes := map[drive.UserID]bool{}, map[drive.NodeID]bool{}
	for _, e := range entries {
		users[e.By.User], nodes[e.Node] = true, true
	}
	delete(users, drive.UserID{})
	delete(nodes, drive.NodeID{})
	if around.names, err = h.parts.Users.Names(ctx, q, keys(users)...); err != nil {
		return around, err
	}
	if around.nodes, err = tree.ByID(ctx, h.parts.Tree, q, keys(nodes)...); err != nil {
		return around, err
	}
	there := make([]tree.Node, 0, len(around.nodes))
	for _, n := range around.nodes {
		there = append(there, n)
	}
	around.spots, err = h.parts.Tree.LocationsOf(ctx, q, there)
	return around, err
}

// keys returns the keys of a set.
func keys[K comparable](set map[K]bool) []K {
	all := make([]K, 0, len(set))
	for k := range set {
		all = append(all, k)
	}
	return all
}

// happened returns the API form of one entry for the viewer s, who sees network addresses only with
// s.all. Path is set if the node is outside of the trash, Restore if s may change it.
func (d pageData) happened(s viewer, e activity.Entry) Entry {
	it := Entry{ID: e.EventID(), At: e.At, Type: e.Verb, Account: e.Account, Name: e.Name, Data: e.Data}
	if !e.By.User.IsZero() {
		it.By = &Person{e.By.User, d.names[e.By.User]}
	}
	if s.all {
		it.Head, it.Address = e.By.Head, e.By.Address
	}
	if e.Node.IsZero() {
		return it
	}
	it.Node = &e.Node
	if !e.Folder.IsZero() {
		it.Folder = &e.Folder
	}
	n, there := d.nodes[e.Node]
	folder, placed := d.spots[n.Parent]
	switch {
	case !there:
		return it
	case n.IsRoot():
		it.Path = d.path(s, drive.Path{})
		return it
	case !placed || !n.Operation.IsZero():
		return it
	}
	if n.Trashed == 0 && folder.Trashed == 0 {
		it.Path = d.path(s, append(append(drive.Path{}, folder.Path...), n.Name))
	}
	if s.pass.Rights.Has(access.Change) {
		it.Restore = restoreOf(e, n, folder.Trashed != 0)
	}
	return it
}

// path returns the address of a path as the caller may know it: in the caller's own drive or in a
// space; "" elsewhere.
func (d pageData) path(s viewer, p drive.Path) string {
	switch {
	case !s.pass.Who.Guest:
		return p.String()
	case s.pass.Space != "":
		return drive.Address{Place: s.pass.Space, Path: p}.String()
	}
	return ""
}

// restoreOf returns how the change of an entry can be undone in the node's current state; above
// tells that a folder above the node is trashed.
func restoreOf(e activity.Entry, n tree.Node, above bool) Restore {
	var was struct {
		Version drive.VersionID `json:"was_version"`
		Folder  drive.NodeID    `json:"was_folder"`
		Name    string          `json:"was_name"`
	}
	if json.Unmarshal(e.Data, &was) != nil {
		return ""
	}
	switch live := n.Trashed == 0 && !above; {
	case e.Verb == activity.NodeTrashed && n.Trashed != 0:
		return FromTrash
	case e.Verb == activity.NodeChanged && live && !was.Version.IsZero() && n.Version != was.Version:
		return ToVersion
	case e.Verb == activity.NodeMoved && live && (!was.Folder.IsZero() || was.Name != ""):
		return MoveBack
	}
	return ""
}
