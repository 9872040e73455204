package files

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/lock"
	"example.org/smartdrive/internal/domain/property"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// DAVMetadata implements WebDAV locks and dead properties on nodes.
type DAVMetadata struct {
	*authorizer
	accounting *accounting
	lockRules  lock.Rules
	orphans    *sqldb.Orphans // properties of nodes that were deleted permanently
}

// NewDAVMetadata returns the DAVMetadata of f.
func NewDAVMetadata(f *Files) DAVMetadata {
	return DAVMetadata{f.authorizer, f.accounting, LockRules(f.opt.Now, f.opt.Access), &sqldb.Orphans{Table: "dav_properties", Key: "node_id", Owner: "node_id", OwnerTable: "nodes"}}
}

// Purge deletes expired locks, and per call one batch of properties whose node was deleted. A nil
// error does not mean that none are left.
func (m DAVMetadata) Purge(ctx context.Context) error {
	err := lock.Purge(ctx, m.db, drive.TimeOf(m.lockRules.Now()))
	if err == nil {
		_, err = m.orphans.Delete(ctx, m.db)
	}
	return err
}

// DeleteAccount deletes the WebDAV locks and properties of an account within tx.
func (m DAVMetadata) DeleteAccount(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if err := lock.DeleteAccount(ctx, tx, account); err != nil {
		return err
	}
	return property.DeleteAccount(ctx, tx, account)
}

// Lock locks a live node and returns the lock with its id and expiry. Of l it uses node, scope,
// depth, owner and duration. It fails with Locked if a conflicting lock exists, with TooManyOpen if
// the account has too many locks, and, if e does not hold, with an error that tree.IsStale
// recognizes.
func (m DAVMetadata) Lock(ctx context.Context, who drive.Who, l lock.Lock, e tree.Expect) (lock.Lock, error) {
	p, err := m.authorize(ctx, who, l.Node, access.Replace)
	if err != nil {
		return lock.Lock{}, err
	}
	l.Account, l.User = p.Who.Account, who.User
	err = m.accounting.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if err := e.Check(ctx, tx, m.tree); err != nil {
			return err
		}
		if _, err := m.findLive(ctx, tx, p.Who, l.Node); err != nil {
			return err
		}
		l, err = m.lockRules.Acquire(ctx, tx, l)
		return err
	})
	return l, err
}

// Relock extends a lock of the caller to last from now on, if the caller may still lock the node.
// It fails with NotFound if the lock has ended.
func (m DAVMetadata) Relock(ctx context.Context, who drive.Who, l lock.Lock, lasts time.Duration) error {
	if _, err := m.authorize(ctx, who, l.Node, access.Replace); err != nil {
		return err
	}
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return lock.Refresh(ctx, tx, drive.TimeOf(m.lockRules.Now()), l.ID, who.User, lasts)
	})
}

// Unlock removes a lock: the caller's own, or any lock if the caller may delete the node
// permanently. Otherwise it fails with Locked {by, until}.
func (m DAVMetadata) Unlock(ctx context.Context, who drive.Who, l lock.Lock) error {
	if l.User != who.User {
		_, err := m.authorize(ctx, who, l.Node, access.Delete)
		if drive.IsKind(err, drive.Forbidden, drive.NotFound) {
			return l.Refusal()
		}
		if err != nil {
			return err
		}
	}
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return lock.Release(ctx, tx, l.ID) })
}

// LocksAt returns the locks that apply to a node; with below also those on its descendants. The
// caller must be allowed to see the node.
func (m DAVMetadata) LocksAt(ctx context.Context, who drive.Who, id drive.NodeID, below bool) ([]lock.Lock, error) {
	p, err := m.authorize(ctx, who, id, access.Look)
	if err != nil {
		return nil, err
	}
	return m.lockRules.At(ctx, m.db.For(p.Who.Account), p.Who.Account, id, below)
}

// LocksOn returns the locks set directly on the nodes, without those inherited from folders above.
// The caller must be allowed to see the nodes.
func (m DAVMetadata) LocksOn(ctx context.Context, nodes []drive.NodeID) ([]lock.Lock, error) {
	all, err := lock.On(ctx, m.db, drive.TimeOf(m.lockRules.Now()), nodes)
	if err != nil {
		return nil, err
	}
	return m.lockRules.Valid(ctx, m.db, all)
}

// LockRules returns lock rules under which a lock ends when its user loses the right to replace the
// node.
func LockRules(now func() time.Time, a *access.Access) lock.Rules {
	return lock.Rules{Now: now, WithoutRights: func(ctx context.Context, q sqldb.Querier, all []lock.Lock) (map[drive.LockID]bool, error) {
		var claims []access.UserNode
		for _, l := range all {
			if !l.OwnAccount {
				claims = append(claims, access.UserNode{User: l.User, Node: l.Node})
			}
		}
		may, err := access.Entitled(ctx, a, q, claims, access.Replace)
		lost := map[drive.LockID]bool{}
		for _, l := range all {
			lost[l.ID] = !l.OwnAccount && !may[access.UserNode{User: l.User, Node: l.Node}]
		}
		return lost, err
	}}
}

// EnforceLocks makes a tree refuse changes that violate WebDAV locks, by setting the hooks in opt.
func EnforceLocks(opt *tree.Options, r lock.Rules) {
	opt.CheckReplace = func(ctx context.Context, tx *sqldb.Tx, n tree.Node, by drive.Who) error {
		return r.Check(ctx, tx, n.Account, n.ID, by, false)
	}
	opt.CheckRemove = func(ctx context.Context, tx *sqldb.Tx, n tree.Node, by drive.Who) error {
		return r.ReleaseForMove(ctx, tx, n.Account, n.Parent, n.ID, by)
	}
	opt.CheckAdd = func(ctx context.Context, tx *sqldb.Tx, in tree.Folder, by drive.Who) error {
		return r.Check(ctx, tx, in.Account, in.ID, by, false)
	}
	opt.LocksHeld = r.AllValid
}

// Properties returns the dead properties of nodes by node id. The caller must be allowed to see the
// nodes.
func (m DAVMetadata) Properties(ctx context.Context, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID][]property.Property, error) {
	return property.Find(ctx, m.db.For(who.Account), nodes)
}

// PropertyPatch is the change that SetProperties makes.
type PropertyPatch struct {
	MTime   drive.Time // zero: unchanged
	Changes []property.Change
	Expect  tree.Expect // what the caller has read and relies on
}

// SetProperties changes dead properties and the modification time of a live node atomically. It
// fails with Locked if another user has locked the node.
func (m DAVMetadata) SetProperties(ctx context.Context, who drive.Who, id drive.NodeID, s PropertyPatch) error {
	p, err := m.authorize(ctx, who, id, access.Edit)
	if err != nil {
		return err
	}
	return m.accounting.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.Expect.Check(ctx, tx, m.tree); err != nil {
			return err
		}
		n, err := m.findLive(ctx, tx, p.Who, id)
		if err != nil {
			return err
		}
		if len(s.Changes) > 0 {
			if err := m.lockRules.Check(ctx, tx, p.Who.Account, id, p.Who, false); err != nil {
				return err
			}
		}
		if s.MTime != 0 && !n.IsRoot() {
			if _, err := m.tree.Edit(ctx, tx, p.Who.Account, id, tree.Edit{MTime: s.MTime}); err != nil {
				return err
			}
		}
		return property.Set(ctx, tx, p.Who.Account, id, s.Changes)
	})
}

// copyProperties copies the dead properties of a node and its descendants to their copies, made in
// tx.
func copyProperties(ctx context.Context, tx *sqldb.Tx, from, to tree.Node) error {
	any, err := property.Any(ctx, tx, from.Account)
	if err != nil || !any {
		return err
	}
	return property.Copy(ctx, tx, to.Account, from.ID, to.ID)
}

// DropEmpty deletes the empty version that locking a nonexistent file created, once the file has
// content, so that it is not in the version history. A version that is not empty, or is current,
// stays.
func (m DAVMetadata) DropEmpty(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) error {
	p, err := m.authorize(ctx, who, id, access.Replace)
	if err != nil {
		return err
	}
	return m.accounting.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := m.findLive(ctx, tx, p.Who, id)
		if err != nil {
			return err
		}
		v, err := m.tree.FindVersion(ctx, tx, id, version)
		if err != nil || v.Size != 0 {
			return err
		}
		gone, err := m.tree.DropVersion(ctx, tx, n, version)
		if err != nil {
			return err
		}
		return m.accounting.drop(ctx, tx, p.Who.Account, gone)
	})
}
