package space

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/activity"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Principal names who gets a role: by id, or a name whatever its case.
type Principal struct {
	Kind access.Kind
	ID   drive.PrincipalID
	Name string // instead of ID
}

// NewGrant describes a role to be given.
type NewGrant struct {
	Node  drive.NodeID
	To    Principal
	Role  access.Role
	Note  string
	Life  time.Duration // zero: for ever
	Until drive.Time    // when it ends, instead of Life; zero: Life says it
	Admin bool          // the caller acts as an administrator, for a space whose managers are gone
}

// Grant gives a principal a role at a node, in the place of the one that it has there. Managers
// may, and the owner of the drive; nobody gives what is theirs for a time for longer than that.
// Errors: NotFound, Forbidden, BadRequest {field user or group: there is no such one; field
// expires_in: longer than the caller's own role}, WrongState {state: last-manager}.
func (s *Spaces) Grant(ctx context.Context, who drive.Who, in NewGrant, hook Hook[access.Grant]) (g access.Grant, err error) {
	err = s.writeAt(ctx, who, in.Node, in.Admin, func(ctx context.Context, tx *sqldb.Tx) error {
		m, err := s.mayGrant(ctx, tx, who, in.Node, in.Admin)
		if err != nil {
			return err
		}
		to, err := s.principal(ctx, tx, in.To)
		if err != nil {
			return err
		}
		g = access.Grant{Node: m.node.ID, Account: m.node.Account, Principal: to, Kind: in.To.Kind, Role: in.Role, By: who.User, Note: in.Note}
		if g.Expires = in.Until; in.Life > 0 {
			g.Expires = drive.TimeOf(s.opt.Now()).Add(in.Life)
		}
		if g, err = s.set(ctx, tx, m, g); err != nil {
			return err
		}
		return hook.run(ctx, tx, g)
	})
	return g, err
}

// set gives a role at a node by a mandate.
func (s *Spaces) set(ctx context.Context, tx *sqldb.Tx, m mandate, g access.Grant) (access.Grant, error) {
	if err := m.lasts(g, drive.TimeOf(s.opt.Now())); err != nil {
		return g, err
	}
	if err := s.mayGiveTo(ctx, tx, m.node, g); err != nil {
		return g, err
	}
	was, err := s.lasting(ctx, tx, g.Node, g.Principal)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return g, err
	}
	err = s.keepingManaged(ctx, tx, m.node, func() (err error) {
		if g, err = s.parts.Access.Set(ctx, tx, g); err != nil {
			return err
		}
		if err := s.tellGrant(ctx, tx, m.node, was, g); err != nil {
			return err
		}
		return s.noteGrant(tx, activity.GrantSet, m.node, g)
	})
	return g, err
}

// mayGiveTo refuses a role below the root of a space to somebody who is no member, where nobody may
// give one: it would give nothing. What somebody has there can be made less.
func (s *Spaces) mayGiveTo(ctx context.Context, q sqldb.Querier, n tree.Node, g access.Grant) error {
	if n.IsRoot() || g.Role == access.None {
		return nil
	}
	have, err := s.parts.Access.FindGrant(ctx, q, n.ID, g.Principal)
	if err == nil && have.Role.Rights().Has(g.Role.Rights()) {
		return nil
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return err
	}
	one, err := s.parts.Access.FindSpace(ctx, q, n.Account)
	if drive.IsKind(err, drive.NotFound) || err == nil && one.Outward != access.Nobody {
		return nil
	}
	if err != nil {
		return err
	}
	member, err := s.parts.Access.IsMember(ctx, q, one.Root, g.Principal)
	if err == nil && !member {
		err = drive.Fail(drive.Forbidden, "reason", "outward")
	}
	return err
}

// mandate is somebody's right to give and take roles at a node.
type mandate struct {
	node  tree.Node
	until drive.Time // when it ends; zero: never
}

// lasts refuses a role that outlives the right of who gives it. One that gives nothing may.
func (m mandate) lasts(g access.Grant, now drive.Time) error {
	if m.until == 0 || g.Role == access.None || g.Expires != 0 && g.Expires <= m.until {
		return nil
	}
	return drive.Bad("expires_in", drive.OutOfRange, "max", int64(max(0, m.until.Sub(now))/time.Second))
}

// mayGrant finds a node whose grants the caller may change. Nobody is given all of a personal
// drive.
func (s *Spaces) mayGrant(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.NodeID, admin bool) (m mandate, err error) {
	var account drive.AccountID
	p, err := s.parts.Access.Enter(ctx, q, who, id, access.SetAccess)
	switch {
	case admin && who.Admin && drive.IsKind(err, drive.NotFound, drive.Forbidden):
		if account, err = s.spaceOf(ctx, q, id); err != nil {
			return m, err
		}
	case err != nil:
		return m, err
	default:
		account = p.Who.Account
		if p.Until != 0 {
			m.until, err = s.parts.Access.Lasts(ctx, q, who, id, access.Manage)
		}
	}
	if err == nil {
		m.node, err = s.parts.Tree.Find(ctx, q, account, id)
	}
	if err != nil || !m.node.IsRoot() {
		return m, err
	}
	_, err = s.parts.Access.FindSpace(ctx, q, account)
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Bad("node", drive.NotAllowed, "allowed", []string{"a file or folder below the root"}, "sent", "root")
	}
	if admin && who.Admin { // who could give it to themselves
		m.until = 0
	}
	return m, err
}

// spaceOf returns the space whose root a node is.
func (s *Spaces) spaceOf(ctx context.Context, q sqldb.Querier, root drive.NodeID) (drive.AccountID, error) {
	one, err := s.parts.Access.FindSpaceByRoot(ctx, q, root)
	return one.ID, err
}

// principal finds whom a request names.
func (s *Spaces) principal(ctx context.Context, q sqldb.Querier, p Principal) (drive.PrincipalID, error) {
	if p.Name == "" {
		return p.ID, nil
	}
	var id drive.PrincipalID
	var err error
	if p.Kind == access.Group {
		var t access.Team
		t, err = s.parts.Access.FindGroupByName(ctx, q, p.Name)
		id = drive.PrincipalID(t.ID)
	} else {
		u, failed := s.parts.Users.FindByName(ctx, q, p.Name)
		id, err = drive.PrincipalID(u.ID), failed
	}
	if drive.IsKind(err, drive.NotFound) {
		err = drive.Bad(string(p.Kind), drive.Unknown)
	}
	return id, err
}

// keepingManaged runs a change of the grants at a node, and refuses one that takes the last manager
// from a space. A space that has none, because its managers have left, may be changed.
func (s *Spaces) keepingManaged(ctx context.Context, tx *sqldb.Tx, n tree.Node, change func() error) error {
	if !n.IsRoot() {
		return change()
	}
	had, err := s.parts.Access.HasManager(ctx, tx, n.ID)
	if err != nil {
		return err
	}
	if err := change(); err != nil || !had {
		return err
	}
	has, err := s.parts.Access.HasManager(ctx, tx, n.ID)
	if err == nil && !has {
		err = drive.Fail(drive.WrongState, "state", "last-manager")
	}
	return err
}

// Ungrant takes a principal's role at a node away: managers may, and everybody their own, which is
// to leave. One that is not there is no error.
func (s *Spaces) Ungrant(ctx context.Context, who drive.Who, node drive.NodeID, principal drive.PrincipalID, admin bool) error {
	return s.writeAt(ctx, who, node, admin, func(ctx context.Context, tx *sqldb.Tx) error {
		m, err := s.mayGrant(ctx, tx, who, node, admin)
		if drive.IsKind(err, drive.Forbidden, drive.NotFound) && principal == drive.PrincipalID(who.User) {
			return s.leave(ctx, tx, who, node)
		}
		if err != nil {
			return err
		}
		return s.keepingManaged(ctx, tx, m.node, func() error {
			was, taken, err := s.parts.Access.Take(ctx, tx, node, principal)
			if err != nil || !taken {
				return err
			}
			if err := s.tellGrant(ctx, tx, m.node, was, access.Grant{By: who.User}); err != nil {
				return err
			}
			return s.noteGrant(tx, activity.GrantTaken, m.node, was)
		})
	})
}

// leave is Ungrant of one's own role. A role that narrows is not one's own to shake off, neither
// while the space is archived, where nothing but seeing is left of any role.
func (s *Spaces) leave(ctx context.Context, tx *sqldb.Tx, who drive.Who, node drive.NodeID) error {
	p, err := s.parts.Access.At(ctx, tx, who, node)
	if err != nil {
		return err
	}
	n, err := s.parts.Tree.Find(ctx, tx, p.Who.Account, node)
	if err != nil {
		return err
	}
	before, err := s.parts.Access.Given(ctx, tx, who, node)
	if err != nil {
		return err
	}
	return s.keepingManaged(ctx, tx, n, func() error {
		was, taken, err := s.parts.Access.Take(ctx, tx, node, drive.PrincipalID(who.User))
		if err != nil {
			return err
		}
		if taken {
			if err := s.noteGrant(tx, activity.GrantTaken, n, was); err != nil {
				return err
			}
		}
		after, err := s.parts.Access.Given(ctx, tx, who, node)
		if err == nil && !before.Has(after) {
			err = drive.Fail(drive.Forbidden, "reason", "role", "role", string(before.Role()), "needs", string(access.Manager))
		}
		return err
	})
}

// maxPanel is how many grants of all folders above the list of who has access shows.
const maxPanel = 1000

// Panel is who has access to a node.
type Panel struct {
	Owner  string         // the user whose drive it is in; empty: it is in a space
	Grants []access.Above // the nearest first
	Rights access.Right   // of the caller
}

// Access tells who has access to a node, and where each right comes from. A guest is told of those
// folders alone that they see.
func (s *Spaces) Access(ctx context.Context, who drive.Who, node drive.NodeID) (Panel, error) {
	p, err := s.parts.Access.Enter(ctx, s.parts.DB, who, node, access.SeeAccess)
	if err != nil {
		return Panel{}, err
	}
	most := 1 << 12
	if p.Who.Guest {
		most = p.Level
	}
	panel := Panel{Rights: p.Rights}
	if panel.Grants, err = s.parts.Access.ListUp(ctx, s.parts.DB, node, most, maxPanel); err != nil {
		return Panel{}, err
	}
	panel.Owner, err = s.parts.Access.Owner(ctx, s.parts.DB, p.Who.Account)
	return panel, err
}

// Members lists the grants at one node, a page of them.
func (s *Spaces) Members(ctx context.Context, who drive.Who, node drive.NodeID, after drive.PrincipalID, limit int) ([]access.Grant, error) {
	if _, err := s.parts.Access.Enter(ctx, s.parts.DB, who, node, access.SeeAccess); err != nil && !who.Admin {
		return nil, err
	} else if err != nil {
		if _, err := s.spaceOf(ctx, s.parts.DB, node); err != nil {
			return nil, err
		}
	}
	return s.parts.Access.ListAt(ctx, s.parts.DB, node, after, limit)
}

// Shared is a node that is shared by name.
type Shared struct {
	access.Mount

	Item tree.Node
	Path string // of what the caller shares; of what is shared with the caller, its address
}

// SetMount renames or hides something that is shared with the caller, for the caller alone.
func (s *Spaces) SetMount(ctx context.Context, who drive.Who, node drive.NodeID, c access.MountChange) error {
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return s.parts.Access.SetMount(ctx, tx, who.User, node, c)
	})
}

// WithMe lists what is shared with the caller, spaces excepted, in the order of the nodes' ids;
// what the caller has hidden only when hidden is set.
func (s *Spaces) WithMe(ctx context.Context, who drive.Who, after drive.NodeID, limit int, hidden bool) ([]Shared, error) {
	all, err := s.parts.Access.ListMine(ctx, s.parts.DB, who.User, after, limit, hidden)
	if err != nil {
		return nil, err
	}
	return s.items(ctx, all, true)
}

// ByMe lists what the caller shares of their own drive, a grant each.
func (s *Spaces) ByMe(ctx context.Context, who drive.Who, after access.Grant, limit int) ([]Shared, error) {
	grants, err := s.parts.Access.ListOf(ctx, s.parts.DB, who.Account, after, limit)
	if err != nil {
		return nil, err
	}
	return s.items(ctx, mounts(grants), false)
}

// ByMeIn is ByMe of what is in a folder of the caller's own drive, without what is below that: up
// to limit of it. In another folder there is nothing of theirs.
func (s *Spaces) ByMeIn(ctx context.Context, who drive.Who, folder drive.NodeID, limit int) ([]Shared, error) {
	if _, err := s.parts.Tree.Find(ctx, s.parts.DB, who.Account, folder); err != nil {
		if drive.IsKind(err, drive.NotFound) {
			err = nil
		}
		return nil, err
	}
	grants, err := s.parts.Access.ListIn(ctx, s.parts.DB, folder, limit)
	if err != nil {
		return nil, err
	}
	return s.items(ctx, mounts(grants), false)
}

func mounts(grants []access.Grant) []access.Mount {
	all := make([]access.Mount, len(grants))
	for i, g := range grants {
		all[i] = access.Mount{Grant: g}
	}
	return all
}

// items finds the nodes of grants. Those in the trash, or gone, stay in the list without a name: a
// page is never short because of them.
func (s *Spaces) items(ctx context.Context, all []access.Mount, asGuest bool) ([]Shared, error) {
	ids := make([]drive.NodeID, len(all))
	for i, g := range all {
		ids[i] = g.Node
	}
	nodes, err := tree.ByID(ctx, s.parts.Tree, s.parts.DB, ids...)
	if err != nil {
		return nil, err
	}
	there := make([]tree.Node, 0, len(nodes))
	for _, n := range nodes {
		there = append(there, n)
	}
	spots, err := s.parts.Tree.SpotsOf(ctx, s.parts.DB, there)
	if err != nil {
		return nil, err
	}
	shared := make([]Shared, len(all))
	for i, g := range all {
		shared[i] = Shared{Mount: g}
		n, found := nodes[g.Node]
		folder, placed := spots[n.Parent]
		if !found || !n.IsRoot() && (!placed || folder.Trashed != 0) || n.Trashed != 0 || !n.Operation.IsZero() {
			continue
		}
		shared[i].Item = n
		shared[i].Path = append(append(drive.Path{}, folder.Path...), n.Name).String()
		if asGuest {
			shared[i].Path = drive.Address{Place: n.ID.String()}.String()
		}
	}
	return shared, nil
}

// noteGrant notes that a role at a node was given or taken.
func (s *Spaces) noteGrant(tx *sqldb.Tx, verb activity.Verb, n tree.Node, g access.Grant) error {
	data := map[string]any{"principal": g.Principal, "kind": g.Kind, "name": g.Name, "role": g.Role}
	if g.Expires != 0 {
		data["expires_at"] = g.Expires
	}
	return s.parts.Log.Note(tx, activity.Entry{Account: n.Account, Verb: verb, Node: n.ID, Folder: n.Parent, Name: string(n.Name)}, data)
}
