// Package accesstest is the model that package access, and whatever asks it, is compared with:
// lists that are walked from a node upwards, without a database and without an index.
package accesstest

import (
	"slices"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
)

// Model is what there is: drives and spaces with their nodes, groups with their members, grants.
type Model struct {
	Now    time.Time
	Rooms  []Room
	Groups []drive.GroupID
	Member map[drive.GroupID]map[drive.UserID]bool
	Grants []access.Grant
	Nodes  []drive.NodeID
	Up     map[drive.NodeID]drive.NodeID // each node's parent; zero: it is a root
	Of     map[drive.NodeID]int          // the room of a node
	Trash  map[drive.NodeID]bool         // nodes that were put into the trash themselves
}

// Room is an account.
type Room struct {
	Account drive.AccountID
	Root    drive.NodeID
	Owner   drive.UserID // zero: it is a space
	State   access.State
	Links   access.Givers // of a space
	Outward access.Givers
}

// IsSpace reports whether it is one.
func (r Room) IsSpace() bool { return r.Owner.IsZero() }

// New returns a model of nothing.
func New() *Model {
	return &Model{
		Member: map[drive.GroupID]map[drive.UserID]bool{}, Up: map[drive.NodeID]drive.NodeID{}, Of: map[drive.NodeID]int{},
		Trash: map[drive.NodeID]bool{},
	}
}

// AddRoom adds an account with its root.
func (m *Model) AddRoom(r Room) {
	m.Rooms = append(m.Rooms, r)
	m.Add(r.Root, drive.NodeID{}, len(m.Rooms)-1)
}

// AddGroup adds a group without members.
func (m *Model) AddGroup(id drive.GroupID) {
	m.Groups, m.Member[id] = append(m.Groups, id), map[drive.UserID]bool{}
}

// Add adds a node to a room.
func (m *Model) Add(id, parent drive.NodeID, room int) {
	m.Nodes, m.Up[id], m.Of[id] = append(m.Nodes, id), parent, room
}

// Room is that of a node.
func (m *Model) Room(node drive.NodeID) Room { return m.Rooms[m.Of[node]] }

// Below reports whether a node is another one, or lies below it.
func (m *Model) Below(node, top drive.NodeID) bool {
	for ; !node.IsZero(); node = m.Up[node] {
		if node == top {
			return true
		}
	}
	return false
}

// InTrash reports whether a node, or a folder above it, is in the trash.
func (m *Model) InTrash(node drive.NodeID) bool {
	for ; !node.IsZero(); node = m.Up[node] {
		if m.Trash[node] {
			return true
		}
	}
	return false
}

// Give gives a role in the place of the one that there was.
func (m *Model) Give(g access.Grant) {
	m.Take(g.Node, g.Principal)
	m.Grants = append(m.Grants, g)
}

// Take takes a role away.
func (m *Model) Take(node drive.NodeID, principal drive.PrincipalID) {
	m.Grants = slices.DeleteFunc(m.Grants, func(g access.Grant) bool { return g.Node == node && g.Principal == principal })
}

// mine reports whether a grant is one of a person's.
func (m *Model) mine(user drive.UserID, g access.Grant) bool {
	return g.Principal == drive.PrincipalID(user) || m.Member[drive.GroupID(g.Principal)][user]
}

// gives reports whether a grant gives a person something, as far as it says itself.
func (m *Model) gives(user drive.UserID, g access.Grant) bool {
	return m.mine(user, g) && g.Role != access.None && (g.Expires == 0 || g.Expires > drive.TimeOf(m.Now))
}

// belongs reports whether a person has a role at the root of a space.
func (m *Model) belongs(user drive.UserID, r Room) bool {
	return r.IsSpace() && slices.ContainsFunc(m.Grants, func(g access.Grant) bool { return g.Node == r.Root && m.gives(user, g) })
}

// Rights is what a person may do at a node: a walk over a list of grants.
func (m *Model) Rights(user drive.UserID, node drive.NodeID) access.Right {
	room := m.Room(node)
	if room.Owner == user {
		return access.All
	}
	if room.State == access.Deleted || (room.Outward == access.Nobody || m.InTrash(node)) && !m.belongs(user, room) {
		return 0
	}
	rights, decided := access.Right(0), false
	for at := node; ; at = m.Up[at] {
		here, any := access.Right(0), false
		for _, g := range m.Grants {
			if g.Node != at || !m.mine(user, g) || g.Expires != 0 && g.Expires <= drive.TimeOf(m.Now) {
				continue
			}
			any = true
			here |= g.Role.Rights()
			if at == room.Root && room.IsSpace() && g.Role == access.Manager {
				return room.leaves(access.All)
			}
		}
		if any && !decided {
			rights, decided = here, true
		}
		if m.Up[at].IsZero() {
			return room.leaves(rights)
		}
	}
}

// leaves is what an archive leaves of rights.
func (r Room) leaves(rights access.Right) access.Right {
	if r.State == access.Archived {
		return rights & access.See
	}
	return rights
}

// MayLink reports whether a person may give out links to a node.
func (m *Model) MayLink(user drive.UserID, node drive.NodeID) bool {
	room, rights := m.Room(node), m.Rights(user, node)
	switch {
	case room.Owner == user || room.Links == "" || room.Links == access.Editors:
		return rights.Has(access.Change)
	case room.Links == access.Managers:
		return rights.Has(access.Manage) && rights.Has(access.Change)
	}
	return false
}

// MayShow reports whether a person may give out links to all that is below a node: nothing of it is
// hidden from them.
func (m *Model) MayShow(user drive.UserID, node drive.NodeID) bool {
	return m.MayLink(user, node) && !slices.ContainsFunc(m.Nodes, func(below drive.NodeID) bool {
		return m.Below(below, node) && !m.Rights(user, below).Has(access.See)
	})
}

// Ends reports whether a role ends between two moments.
func (m *Model) Ends(from, to time.Time) bool {
	return slices.ContainsFunc(m.Grants, func(g access.Grant) bool {
		return g.Expires != 0 && g.Expires >= drive.TimeOf(from) && g.Expires <= drive.TimeOf(to)
	})
}

// SharedWith is what is shared with a person by name.
func (m *Model) SharedWith(user drive.UserID) map[drive.NodeID]bool {
	all := map[drive.NodeID]bool{}
	for _, g := range m.Grants {
		room := m.Room(g.Node)
		hidden := room.IsSpace() && (g.Node == room.Root || room.State == access.Deleted || room.Outward == access.Nobody && !m.belongs(user, room))
		if m.gives(user, g) && !hidden {
			all[g.Node] = true
		}
	}
	return all
}
