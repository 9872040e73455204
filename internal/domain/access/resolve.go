package access

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Options configures New. DB is required; the zero value of each other field selects its default.
type Options struct {
	DB *sqldb.DB
	// Shared tells that other instances change grants, too.
	Shared bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Access authorizes callers. It is safe for concurrent use.
type Access struct {
	opt   Options
	epoch epoch
	paths pathCache
	// Rows of permanently deleted nodes.
	orphans        sqldb.Orphans // grants
	orphanedMounts sqldb.Orphans
}

// New returns an Access configured by opt.
func New(opt Options) *Access {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Access{
		opt:            opt,
		orphans:        sqldb.Orphans{Table: "grants", Key: "node_id", Owner: "node_id", OwnerTable: "nodes"},
		orphanedMounts: sqldb.Orphans{Table: "mounts", Key: "node_id", Owner: "node_id", OwnerTable: "nodes"},
	}
}

// now returns the time against which grants expire, from Options.Now.
func (a *Access) now() drive.Time { return drive.TimeOf(a.opt.Now()) }

// Pass is a caller's authorization at a node.
type Pass struct {
	Who    drive.Who // acts on the account of the node
	Node   drive.NodeID
	Rights Right
	Until  drive.Time    // expiry, after which to authorize again; zero: never
	All    bool          // manager of the root: no grant below narrows the rights
	links  SharingPolicy // who may create links; empty: the role decides

	// Of a guest: Top is the highest folder from which the node is visible, Level its distance
	// above the node, and Space the name of the space whose root it is, if any. A guest may not
	// learn what is above Top.
	Top   drive.NodeID
	Level int
	Space string
}

// Place returns the first segment of addresses below the guest's top: the name of the space or the
// id of the shared node; empty for the owner.
func (p Pass) Place() string {
	switch {
	case !p.Who.Guest:
		return ""
	case p.Space != "":
		return p.Space
	}
	return p.Top.String()
}

// maxLevels bounds the way up to the root, as in tree.PathOf.
const maxLevels = 4096

// Enter authorizes a use of a node. The pass's Who acts on the account of the node. It costs one
// statement.
//
// Errors: NotFound if the caller may not see the node (A2); Forbidden {role, needs} if the caller
// sees it and lacks the right.
func (a *Access) Enter(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID, use Use) (Pass, error) {
	p, err := a.At(ctx, q, who, node)
	if err != nil {
		return Pass{}, err
	}
	return p, p.Check(use)
}

// Check returns nil if the pass allows the use, else an error as in Enter.
func (p Pass) Check(use Use) error {
	switch {
	case (use == Link || use == CollectLink) && p.links == Nobody && p.Rights.Has(See):
		return drive.Fail(drive.Forbidden, "reason", "links")
	case (use == Link || use == CollectLink) && p.links == Managers && p.Rights.Has(See) && !p.Rights.Has(Manage):
		return drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(Manager))
	case p.Rights.Has(use.Needs()):
		return nil
	case p.Rights.Has(See), p.Rights != 0 && p.Level == 0:
		return drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(use.MinRole()))
	}
	return drive.Fail(drive.NotFound)
}

// At returns a caller's pass at a node. It fails with NotFound if the caller has no right there.
func (a *Access) At(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (Pass, error) {
	found, err := a.findPath(ctx, q, who, node)
	if err != nil {
		return Pass{}, err
	}
	p := Pass{Who: who, Node: node}
	if found.isOwn {
		p.Rights = All
		return p, nil
	}
	if !found.apply(&p, a.now()) {
		return Pass{}, drive.Fail(drive.NotFound)
	}
	return p, nil
}

// apply decides the rights of a guest and sets them in p; false: the guest has none.
func (g grantPath) apply(p *Pass, now drive.Time) bool {
	v := decide(g.steps, now)
	if v.rights = v.narrowed(g); v.rights == 0 {
		return false
	}
	p.Who.Account, p.Who.Guest = g.account, true
	p.Rights, p.Until, p.Top, p.Level, p.All, p.links = v.rights, v.until, v.top, v.level, v.all, g.links
	if v.atRoot {
		p.Space = g.space
	}
	return true
}

// GrantedRights returns the rights that the grants alone give, ignoring that a space is archived or
// deleted and that a node is in the trash. It is All for the caller's own node, and 0 for a missing
// node or one without grants.
func (a *Access) GrantedRights(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (Right, error) {
	found, err := a.readPath(ctx, q, who, node, maxLevels)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return 0, nil
	case err != nil || found.isOwn:
		return All, err
	}
	return decide(found.steps, a.now()).rights, nil
}

// InTrash reports whether a node is in the trash, itself or with a folder above it, and the user
// would have the right for use if it were restored.
func InTrash(ctx context.Context, a *Access, q sqldb.Querier, who drive.Who, node drive.NodeID, use Use) (bool, error) {
	found, err := a.readPath(ctx, q, who, node, maxLevels)
	if drive.IsKind(err, drive.NotFound) { // no grant left
		return false, nil
	}
	return err == nil && found.trashed && decide(found.steps, a.now()).rights.Has(use.Needs()), err
}

// RightUntil returns until when a caller has a right at a node by the current grants. Zero: it does
// not expire. A time that is not in the future: the caller does not have it.
func (a *Access) RightUntil(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID, want Right) (drive.Time, error) {
	found, err := a.readPath(ctx, q, who, node, maxLevels)
	if err != nil || found.isOwn {
		return 0, err
	}
	for at := a.now(); ; {
		v := decide(found.steps, at)
		if !v.rights.Has(want) {
			return at, nil
		}
		if v.until == 0 {
			return 0, nil
		}
		at = v.until
	}
}

// CheckRemoval returns nil if the pass allows the use, which removes the node from its folder, and
// else an error as Check does. It fails with Forbidden {shared-top} for a node that is itself the
// guest's top, because it stays where its owner has put it.
func (p Pass) CheckRemoval(use Use) error {
	if err := p.Check(use); err != nil {
		return err
	}
	if p.Who.Guest && p.Level == 0 && p.Node == p.Top {
		return drive.Fail(drive.Forbidden, "reason", "shared-top")
	}
	return nil
}

// Home returns the account that a user owns. It fails with NotFound if the user does not exist.
func (a *Access) Home(ctx context.Context, q sqldb.Querier, user drive.UserID) (home drive.AccountID, err error) {
	err = q.QueryRow(ctx, `SELECT account_id FROM users WHERE id = ?`, user).Scan(&home)
	return home, err
}
