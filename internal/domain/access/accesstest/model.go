// Package accesstest is a model of the access rules that tests compare package access with: plain
// lists that are walked from a node upwards, without database and index.
package accesstest

import (
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
)

// Model holds drives and spaces with their nodes, groups with their members, and grants.
type Model struct {
	Now          time.Time
	Accounts     []Account
	Groups       []drive.GroupID
	Member       map[drive.GroupID]map[drive.UserID]bool
	Grants       []access.Grant
	Nodes        []drive.NodeID
	Parent       map[drive.NodeID]drive.NodeID // each node's parent; zero: a root
	AccountIndex map[drive.NodeID]int          // index in Accounts of each node's account
	Trash        map[drive.NodeID]bool         // nodes that were trashed themselves
}

// Account is an account.
type Account struct {
	Account drive.AccountID
	Root    drive.NodeID
	Owner   drive.UserID // zero: a space
	State   access.State
	Links   access.SharingPolicy // of a space
	Outward access.SharingPolicy
}

// IsSpace reports whether the account is a space.
func (r Account) IsSpace() bool { return r.Owner.IsZero() }

// New returns an empty model.
func New() *Model {
	return &Model{
		Member: map[drive.GroupID]map[drive.UserID]bool{}, Parent: map[drive.NodeID]drive.NodeID{}, AccountIndex: map[drive.NodeID]int{},
		Trash: map[drive.NodeID]bool{},
	}
}

// AddAccount adds an account with its root.
func (m *Model) AddAccount(r Account) {
	m.Accounts = append(m.Accounts, r)
	m.Add(r.Root, drive.NodeID{}, len(m.Accounts)-1)
}

// AddGroup adds a group without members.
func (m *Model) AddGroup(id drive.GroupID) {
	m.Groups, m.Member[id] = append(m.Groups, id), map[drive.UserID]bool{}
}

// Add adds a node below parent to the account Accounts[room]. A zero parent makes it a root.
func (m *Model) Add(id, parent drive.NodeID, room int) {
	m.Nodes, m.Parent[id], m.AccountIndex[id] = append(m.Nodes, id), parent, room
}

// AccountOf returns the account of a node.
func (m *Model) AccountOf(node drive.NodeID) Account { return m.Accounts[m.AccountIndex[node]] }

// Below reports whether a node is top or a descendant of top.
func (m *Model) Below(node, top drive.NodeID) bool {
	for ; !node.IsZero(); node = m.Parent[node] {
		if node == top {
			return true
		}
	}
	return false
}

// InTrash reports whether a node, or a folder above it, is trashed.
func (m *Model) InTrash(node drive.NodeID) bool {
	for ; !node.IsZero(); node = m.Parent[node] {
		if m.Trash[node] {
			return true
		}
	}
	return false
}

// Grant adds a grant and removes an existing one of the same principal at the node.
func (m *Model) Grant(g access.Grant) {
	m.Revoke(g.Node, g.Principal)
	m.Grants = append(m.Grants, g)
}

// Revoke removes a grant.
func (m *Model) Revoke(node drive.NodeID, principal drive.PrincipalID) {
	m.Grants = slices.DeleteFunc(m.Grants, func(g access.Grant) bool { return g.Node == node && g.Principal == principal })
}

// isPrincipal reports whether a grant belongs to a user or one of the user's groups.
func (m *Model) isPrincipal(user drive.UserID, g access.Grant) bool {
	return g.Principal == drive.PrincipalID(user) || m.Member[drive.GroupID(g.Principal)][user]
}

// isEffective reports whether a grant of the user is neither None nor expired.
func (m *Model) isEffective(user drive.UserID, g access.Grant) bool {
	return m.isPrincipal(user, g) && g.Role != access.None && (g.Expires == 0 || g.Expires > drive.TimeOf(m.Now))
}

// isMember reports whether a user has a role at the root of a space.
func (m *Model) isMember(user drive.UserID, r Account) bool {
	return r.IsSpace() && slices.ContainsFunc(m.Grants, func(g access.Grant) bool { return g.Node == r.Root && m.isEffective(user, g) })
}

// Rights computes a user's rights at a node from the grants of the model, as Access must: the
// grants at the nearest node that has any decide, and the owner or a manager of the space has all
// rights that the space's state allows. The result is 0 for nodes that the user may not see.
func (m *Model) Rights(user drive.UserID, node drive.NodeID) access.Right {
	room := m.AccountOf(node)
	if room.Owner == user {
		return access.All
	}
	if room.State == access.Deleted || (room.Outward == access.Nobody || m.InTrash(node)) && !m.isMember(user, room) {
		return 0
	}
	rights, decided := access.Right(0), false
	for at := node; ; at = m.Parent[at] {
		here, any := access.Right(0), false
		for _, g := range m.Grants {
			if g.Node != at || !m.isPrincipal(user, g) || g.Expires != 0 && g.Expires <= drive.TimeOf(m.Now) {
				continue
			}
			any = true
			here |= g.Role.Rights()
			if at == room.Root && room.IsSpace() && g.Role == access.Manager {
				return room.narrow(access.All)
			}
		}
		if any && !decided {
			rights, decided = here, true
		}
		if m.Parent[at].IsZero() {
			return room.narrow(rights)
		}
	}
}

// narrow limits rights in an archived space to See.
func (r Account) narrow(rights access.Right) access.Right {
	if r.State == access.Archived {
		return rights & access.See
	}
	return rights
}

// MayLink reports whether a user may create links to a node: the right Change, and Manage too if
// the space allows links to managers only; never if it allows nobody.
func (m *Model) MayLink(user drive.UserID, node drive.NodeID) bool {
	room, rights := m.AccountOf(node), m.Rights(user, node)
	switch {
	case room.Owner == user || room.Links == "" || room.Links == access.Editors:
		return rights.Has(access.Change)
	case room.Links == access.Managers:
		return rights.Has(access.Manage) && rights.Has(access.Change)
	}
	return false
}

// MayShow reports whether a user may create a link to a node and sees all of its descendants.
func (m *Model) MayShow(user drive.UserID, node drive.NodeID) bool {
	return m.MayLink(user, node) && !slices.ContainsFunc(m.Nodes, func(below drive.NodeID) bool {
		return m.Below(below, node) && !m.Rights(user, below).Has(access.See)
	})
}

// AnyExpires reports whether a grant of any user expires between two times, both included.
func (m *Model) AnyExpires(from, to time.Time) bool {
	return slices.ContainsFunc(m.Grants, func(g access.Grant) bool {
		return g.Expires != 0 && g.Expires >= drive.TimeOf(from) && g.Expires <= drive.TimeOf(to)
	})
}

// SharedWith returns the nodes shared with a user by name.
func (m *Model) SharedWith(user drive.UserID) map[drive.NodeID]bool {
	all := map[drive.NodeID]bool{}
	for _, g := range m.Grants {
		room := m.AccountOf(g.Node)
		hidden := room.IsSpace() && (g.Node == room.Root || room.State == access.Deleted || room.Outward == access.Nobody && !m.isMember(user, room))
		if m.isEffective(user, g) && !hidden {
			all[g.Node] = true
		}
	}
	return all
}
