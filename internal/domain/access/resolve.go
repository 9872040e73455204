package access

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Options configure New. DB is required; the zero value of each other field is its default.
type Options struct {
	DB *sqldb.DB
	// Shared says that other instances change grants, too.
	Shared bool
	// Now is the clock. Default: time.Now.
	Now func() time.Time
}

// Access decides. It is safe for concurrent use.
type Access struct {
	opt   Options
	epoch epoch
	kept  ways
	// What there is at nodes that were deleted for good.
	orphans    sqldb.Orphans // grants
	lostMounts sqldb.Orphans
}

// New returns an Access.
func New(opt Options) *Access {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	return &Access{
		opt:        opt,
		orphans:    sqldb.Orphans{Table: "grants", Key: "node_id", Owner: "node_id", Of: "nodes"},
		lostMounts: sqldb.Orphans{Table: "mounts", Key: "node_id", Owner: "node_id", Of: "nodes"},
	}
}

func (a *Access) now() drive.Time { return drive.TimeOf(a.opt.Now()) }

// Pass is what somebody may do at a node.
type Pass struct {
	Who    drive.Who // acts on the account of the node
	Node   drive.NodeID
	Rights Right
	Until  drive.Time // ask again then; zero: never
	All    bool       // of a manager of the root: no grant below narrows it
	links  Givers     // who may give out links; empty: whose role suffices

	// Of a guest: the highest folder from which the node is seen, how many levels above the node it
	// is, and the space whose root it is, if it is one. What lies above is not the guest's to know.
	Top   drive.NodeID
	Level int
	Space string
}

// Place is the address of the guest's top; empty for the owner.
func (p Pass) Place() string {
	switch {
	case !p.Who.Guest:
		return ""
	case p.Space != "":
		return p.Space
	}
	return p.Top.String()
}

// maxClimb bounds the way up to the root, as tree.PathOf does.
const maxClimb = 4096

// Enter lets somebody do something at a node: the pass's Who acts on the account of the node. One
// statement.
//
// Errors: NotFound, also for who may see nothing there (A2); Forbidden {role, needs} for who may
// see it and not do this.
func (a *Access) Enter(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID, use Use) (Pass, error) {
	p, err := a.At(ctx, q, who, node)
	if err != nil {
		return Pass{}, err
	}
	return p, p.Check(use)
}

// Check is nil when the pass suffices for a use.
func (p Pass) Check(use Use) error {
	switch {
	case (use == Link || use == CollectLink) && p.links == Nobody && p.Rights.Has(See):
		return drive.Fail(drive.Forbidden, "reason", "links")
	case (use == Link || use == CollectLink) && p.links == Managers && p.Rights.Has(See) && !p.Rights.Has(Manage):
		return drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(Manager))
	case p.Rights.Has(use.Needs()):
		return nil
	case p.Rights.Has(See), p.Rights != 0 && p.Level == 0:
		return drive.Fail(drive.Forbidden, "reason", "role", "role", string(p.Rights.Role()), "needs", string(use.Least()))
	}
	return drive.Fail(drive.NotFound)
}

// At returns what somebody may do at a node. Without any right it is NotFound.
func (a *Access) At(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (Pass, error) {
	found, err := a.way(ctx, q, who, node)
	if err != nil {
		return Pass{}, err
	}
	p := Pass{Who: who, Node: node}
	if found.own {
		p.Rights = All
		return p, nil
	}
	if !found.admit(&p, a.now()) {
		return Pass{}, drive.Fail(drive.NotFound)
	}
	return p, nil
}

// admit makes the pass that of a guest who has come by a way; false: they have no right there.
func (w way) admit(p *Pass, now drive.Time) bool {
	v := decide(w.steps, now)
	if v.rights = v.within(w); v.rights == 0 {
		return false
	}
	p.Who.Account, p.Who.Guest = w.account, true
	p.Rights, p.Until, p.Top, p.Level, p.All, p.links = v.rights, v.until, v.top, v.level, v.all, w.links
	if v.atRoot {
		p.Space = w.space
	}
	return true
}

// Given returns what the grants on the way come to, also in a space that is archived or deleted,
// and in the trash.
// Somebody's own node is All; what is not there, or nothing to them, gives no right.
func (a *Access) Given(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID) (Right, error) {
	found, err := a.climb(ctx, q, who, node, maxClimb)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return 0, nil
	case err != nil || found.own:
		return All, err
	}
	return decide(found.steps, a.now()).rights, nil
}

// Trashed reports whether a node, or a folder above it, is in the trash while the grants on the way
// give somebody what a use needs: they have it again when it is restored.
func Trashed(ctx context.Context, a *Access, q sqldb.Querier, who drive.Who, node drive.NodeID, use Use) (bool, error) {
	found, err := a.climb(ctx, q, who, node, maxClimb)
	if drive.IsKind(err, drive.NotFound) { // no grant is left
		return false, nil
	}
	return err == nil && found.trashed && decide(found.steps, a.now()).rights.Has(use.Needs()), err
}

// Lasts returns until when somebody has a right at a node by the grants that there are now: zero is
// for ever, and a moment that is not after now says that they do not have it.
func (a *Access) Lasts(ctx context.Context, q sqldb.Querier, who drive.Who, node drive.NodeID, want Right) (drive.Time, error) {
	found, err := a.climb(ctx, q, who, node, maxClimb)
	if err != nil || found.own {
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

// CheckAway is Check for what takes the node away from where it is. What was shared with a guest
// alone, and not the folder around it, stays where its owner has put it.
func (p Pass) CheckAway(use Use) error {
	if err := p.Check(use); err != nil {
		return err
	}
	if p.Who.Guest && p.Level == 0 && p.Node == p.Top {
		return drive.Fail(drive.Forbidden, "reason", "shared-top")
	}
	return nil
}

// Home is the account of a user, which is nobody else's.
func (a *Access) Home(ctx context.Context, q sqldb.Querier, user drive.UserID) (home drive.AccountID, err error) {
	err = q.QueryRow(ctx, `SELECT account_id FROM users WHERE id = ?`, user).Scan(&home)
	return home, err
}
