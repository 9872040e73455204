package space

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/activity"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Principal identifies the recipient of a role, by id or by name (ignoring case).
type Principal struct {
	Kind access.Kind
	ID   drive.PrincipalID
	Name string // instead of ID
}

// NewGrant describes a role to give to a principal at a node.
type NewGrant struct {
	Node  drive.NodeID
	To    Principal
	Role  access.Role
	Note  string
	Life  time.Duration // zero: see Until
	Until drive.Time    // expiry, unless Life is set; zero: it does not expire
	Admin bool          // the caller acts as an administrator, for a space without managers
}

// Grant gives a principal a role at a node, replacing the one it has there. The caller must be a
// manager or own the drive, and cannot give a role for longer than the caller's own right lasts.
// hook runs at the end of the transaction.
//
// Errors: NotFound, Forbidden, BadRequest (field user or group: unknown principal; field
// expires_in: longer than the caller's right), WrongState {state: last-manager}.
func (s *Spaces) Grant(ctx context.Context, who drive.Who, in NewGrant, hook Hook[access.Grant]) (g access.Grant, err error) {
	err = s.writeAt(ctx, who, in.Node, in.Admin, func(ctx context.Context, tx *sqldb.Tx) error {
		m, err := s.authorizeGrant(ctx, tx, who, in.Node, in.Admin)
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
		if g, err = s.setGrant(ctx, tx, m, g); err != nil {
			return err
		}
		return hook.run(ctx, tx, g)
	})
	return g, err
}

// setGrant stores a grant, records it as activity and notifies the principal. m is the caller's
// right to do so: BadRequest if the grant lasts longer. It fails with Forbidden {reason: outward},
// see checkOutward, and with WrongState {state: last-manager}.
func (s *Spaces) setGrant(ctx context.Context, tx *sqldb.Tx, m grantRight, g access.Grant) (access.Grant, error) {
	if err := m.checkExpiry(g, drive.TimeOf(s.opt.Now())); err != nil {
		return g, err
	}
	if err := s.checkOutward(ctx, tx, m.node, g); err != nil {
		return g, err
	}
	was, err := s.findActive(ctx, tx, g.Node, g.Principal)
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return g, err
	}
	err = s.keepManager(ctx, tx, m.node, func() (err error) {
		if g, err = s.parts.Access.Grant(ctx, tx, g); err != nil {
			return err
		}
		if err := s.notifyGrant(ctx, tx, m.node, was, g); err != nil {
			return err
		}
		return s.logGrant(tx, activity.GrantSet, m.node, g)
	})
	return g, err
}

// checkOutward fails with Forbidden {reason: outward} for a role below the root of a space, to a
// principal who is not a member, if the space shares with members only. Reducing an existing role
// is allowed.
func (s *Spaces) checkOutward(ctx context.Context, q sqldb.Querier, n tree.Node, g access.Grant) error {
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
	if drive.IsKind(err, drive.NotFound) || err == nil && one.ShareOutside != access.Nobody {
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

// grantRight is a caller's checked right to change the grants at a node, and when that right
// expires.
type grantRight struct {
	node    tree.Node
	expires drive.Time // zero: never
}

// checkExpiry returns BadRequest if a grant outlasts the caller's own right. A right without end
// allows each grant; the role None may outlast it.
func (r grantRight) checkExpiry(g access.Grant, now drive.Time) error {
	if r.expires == 0 || g.Role == access.None || g.Expires != 0 && g.Expires <= r.expires {
		return nil
	}
	return drive.BadField("expires_in", drive.OutOfRange, "max", int64(max(0, r.expires.Sub(now))/time.Second))
}

// authorizeGrant checks that the caller may change the grants at a node; with admin, an
// administrator may at the root of any space. The root of a personal drive is BadRequest.
func (s *Spaces) authorizeGrant(ctx context.Context, q sqldb.Querier, who drive.Who, id drive.NodeID, admin bool) (m grantRight, err error) {
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
			m.expires, err = s.parts.Access.RightUntil(ctx, q, who, id, access.Manage)
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
		err = drive.BadField("node", drive.NotAllowed, "allowed", []string{"a file or folder below the root"}, "sent", "root")
	}
	if admin && who.Admin { // an administrator could give themselves the role
		m.expires = 0
	}
	return m, err
}

// spaceOf returns the account of the space with a root node, or NotFound.
func (s *Spaces) spaceOf(ctx context.Context, q sqldb.Querier, root drive.NodeID) (drive.AccountID, error) {
	one, err := s.parts.Access.FindSpaceByRoot(ctx, q, root)
	return one.ID, err
}

// principal returns the id of the principal that a request names. It fails with BadRequest if the
// name is unknown.
func (s *Spaces) principal(ctx context.Context, q sqldb.Querier, p Principal) (drive.PrincipalID, error) {
	if p.Name == "" {
		return p.ID, nil
	}
	var id drive.PrincipalID
	var err error
	if p.Kind == access.Group {
		var t access.UserGroup
		t, err = s.parts.Access.FindGroupByName(ctx, q, p.Name)
		id = drive.PrincipalID(t.ID)
	} else {
		u, failed := s.parts.Users.FindByName(ctx, q, p.Name)
		id, err = drive.PrincipalID(u.ID), failed
	}
	if drive.IsKind(err, drive.NotFound) {
		err = drive.BadField(string(p.Kind), drive.Unknown)
	}
	return id, err
}

// keepManager runs a change of the grants at a node and fails with WrongState {state: last-manager}
// if it removes the last manager of a space. A space that already has no manager may be changed.
func (s *Spaces) keepManager(ctx context.Context, tx *sqldb.Tx, n tree.Node, change func() error) error {
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

// Ungrant revokes a principal's role at a node. Managers may revoke any, and users their own
// (leave). A missing role is no error. It fails with WrongState {state: last-manager}.
func (s *Spaces) Ungrant(ctx context.Context, who drive.Who, node drive.NodeID, principal drive.PrincipalID, admin bool) error {
	return s.writeAt(ctx, who, node, admin, func(ctx context.Context, tx *sqldb.Tx) error {
		m, err := s.authorizeGrant(ctx, tx, who, node, admin)
		if drive.IsKind(err, drive.Forbidden, drive.NotFound) && principal == drive.PrincipalID(who.User) {
			return s.leave(ctx, tx, who, node)
		}
		if err != nil {
			return err
		}
		return s.keepManager(ctx, tx, m.node, func() error {
			was, taken, err := s.parts.Access.Revoke(ctx, tx, node, principal)
			if err != nil || !taken {
				return err
			}
			if err := s.notifyGrant(ctx, tx, m.node, was, access.Grant{By: who.User}); err != nil {
				return err
			}
			return s.logGrant(tx, activity.GrantTaken, m.node, was)
		})
	})
}

// leave revokes the caller's own role. It fails with Forbidden if the caller would gain rights by
// that, because the role narrows one from above; the rights are compared as if the space were not
// archived.
func (s *Spaces) leave(ctx context.Context, tx *sqldb.Tx, who drive.Who, node drive.NodeID) error {
	p, err := s.parts.Access.At(ctx, tx, who, node)
	if err != nil {
		return err
	}
	n, err := s.parts.Tree.Find(ctx, tx, p.Who.Account, node)
	if err != nil {
		return err
	}
	before, err := s.parts.Access.GrantedRights(ctx, tx, who, node)
	if err != nil {
		return err
	}
	return s.keepManager(ctx, tx, n, func() error {
		was, taken, err := s.parts.Access.Revoke(ctx, tx, node, drive.PrincipalID(who.User))
		if err != nil {
			return err
		}
		if taken {
			if err := s.logGrant(tx, activity.GrantTaken, n, was); err != nil {
				return err
			}
		}
		after, err := s.parts.Access.GrantedRights(ctx, tx, who, node)
		if err == nil && !before.Has(after) {
			err = drive.Fail(drive.Forbidden, "reason", "role", "role", string(before.Role()), "needs", string(access.Manager))
		}
		return err
	})
}

// maxPanelGrants bounds the grants in an AccessList.
const maxPanelGrants = 1000

// AccessList lists who has access to a node.
type AccessList struct {
	Owner  string              // user who owns the drive; empty: the node is in a space
	Grants []access.GrantAbove // nearest first
	Rights access.Right        // of the caller
}

// Access returns who has access to a node and at which folder each role was given. A guest only
// gets grants at folders that the guest sees.
func (s *Spaces) Access(ctx context.Context, who drive.Who, node drive.NodeID) (AccessList, error) {
	p, err := s.parts.Access.Enter(ctx, s.parts.DB, who, node, access.SeeAccess)
	if err != nil {
		return AccessList{}, err
	}
	most := 1 << 12
	if p.Who.Guest {
		most = p.Level
	}
	panel := AccessList{Rights: p.Rights}
	if panel.Grants, err = s.parts.Access.ListAbove(ctx, s.parts.DB, node, most, maxPanelGrants); err != nil {
		return AccessList{}, err
	}
	panel.Owner, err = s.parts.Access.Owner(ctx, s.parts.DB, p.Who.Account)
	return panel, err
}

// Members lists a page of the grants at one node, ordered by principal id. An administrator may
// list them for the root of any space.
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

// Shared is a node shared by name.
type Shared struct {
	access.Mount

	Item tree.Node // zero: the node is trashed or deleted
	Path string    // of a share by the caller: the path; of a share with the caller: its address
}

// SetMount renames or hides a node shared with the caller, for the caller only. Repeating it
// changes nothing. It fails with NotFound if the node is not shared with the caller, with
// BadRequest for an invalid alias, and with TooManyOpen.
func (s *Spaces) SetMount(ctx context.Context, who drive.Who, node drive.NodeID, c access.MountChange) error {
	return s.parts.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return s.parts.Access.SetMount(ctx, tx, who.User, node, c)
	})
}

// ListSharedWithMe lists nodes shared with the caller, without spaces, ordered by node id; hidden
// ones only if hidden is set.
func (s *Spaces) ListSharedWithMe(ctx context.Context, who drive.Who, after drive.NodeID, limit int, hidden bool) ([]Shared, error) {
	all, err := s.parts.Access.ListSharedWith(ctx, s.parts.DB, who.User, after, limit, hidden)
	if err != nil {
		return nil, err
	}
	return s.sharedItems(ctx, all, true)
}

// ListSharedByMe returns up to limit items that the caller shares of the caller's own drive, one
// per grant. after is the cursor, the last grant of the previous page; zero at first.
func (s *Spaces) ListSharedByMe(ctx context.Context, who drive.Who, after access.Grant, limit int) ([]Shared, error) {
	grants, err := s.parts.Access.ListOf(ctx, s.parts.DB, who.Account, after, limit)
	if err != nil {
		return nil, err
	}
	return s.sharedItems(ctx, toMounts(grants), false)
}

// ListSharedByMeIn returns up to limit grants at the direct children of a folder in the caller's
// own drive. For another folder it returns nothing.
func (s *Spaces) ListSharedByMeIn(ctx context.Context, who drive.Who, folder drive.NodeID, limit int) ([]Shared, error) {
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
	return s.sharedItems(ctx, toMounts(grants), false)
}

// toMounts wraps grants in mounts.
func toMounts(grants []access.Grant) []access.Mount {
	all := make([]access.Mount, len(grants))
	for i, g := range grants {
		all[i] = access.Mount{Grant: g}
	}
	return all
}

// sharedItems adds nodes and paths to mounts. Trashed and deleted nodes stay in the list without a
// name, so that pages keep their length.
func (s *Spaces) sharedItems(ctx context.Context, all []access.Mount, asGuest bool) ([]Shared, error) {
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
	spots, err := s.parts.Tree.LocationsOf(ctx, s.parts.DB, there)
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

// logGrant records within tx, as activity of the node's account, that the role g at node n was
// given or revoked.
func (s *Spaces) logGrant(tx *sqldb.Tx, verb activity.Verb, n tree.Node, g access.Grant) error {
	data := map[string]any{"principal": g.Principal, "kind": g.Kind, "name": g.Name, "role": g.Role}
	if g.Expires != 0 {
		data["expires_at"] = g.Expires
	}
	return s.parts.Log.Record(tx, activity.Entry{Account: n.Account, Verb: verb, Node: n.ID, Folder: n.Parent, Name: string(n.Name)}, data)
}
