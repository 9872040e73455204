package files

import (
	"context"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/lock"
	"smartdrive/internal/domain/property"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Marks are the locks and dead properties of WebDAV, as use cases.
type Marks struct {
	*doors
	books   *books
	rules   lock.Rules
	orphans *sqldb.Orphans // properties of nodes that were deleted for good
}

// NewMarks returns the marks of files.
func NewMarks(f *Files) Marks {
	return Marks{f.doors, f.books, LockRules(f.opt.Now, f.opt.Access), &sqldb.Orphans{Table: "dav_properties", Key: "node_id", Owner: "node_id", Of: "nodes"}}
}

// Purge deletes the rows of locks that have ended, and in each call some of the properties of nodes
// that are gone.
func (m Marks) Purge(ctx context.Context) error {
	err := lock.Purge(ctx, m.db, drive.TimeOf(m.rules.Now()))
	if err == nil {
		_, err = m.orphans.Delete(ctx, m.db)
	}
	return err
}

// Forget deletes the locks and the properties of an account.
func (m Marks) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if err := lock.Forget(ctx, tx, account); err != nil {
		return err
	}
	return property.Forget(ctx, tx, account)
}

// Lock takes a lock on a live node; of l its node, scope, depth, owner and time are used. Errors
// are those of lock.Rules.Take.
func (m Marks) Lock(ctx context.Context, who drive.Who, l lock.Lock, e tree.Expect) (lock.Lock, error) {
	p, err := m.enter(ctx, who, l.Node, access.Replace)
	if err != nil {
		return lock.Lock{}, err
	}
	l.Account, l.User = p.Who.Account, who.User
	err = m.books.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if err := e.Check(ctx, tx, m.tree); err != nil {
			return err
		}
		if _, err := m.live(ctx, tx, p.Who, l.Node); err != nil {
			return err
		}
		l, err = m.rules.Take(ctx, tx, l)
		return err
	})
	return l, err
}

// Relock lets a lock of the caller's last from now on, while they may still take one. NotFound: it
// has ended.
func (m Marks) Relock(ctx context.Context, who drive.Who, l lock.Lock, lasts time.Duration) error {
	if _, err := m.enter(ctx, who, l.Node, access.Replace); err != nil {
		return err
	}
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return lock.Refresh(ctx, tx, drive.TimeOf(m.rules.Now()), l.ID, who.User, lasts)
	})
}

// Unlock ends a lock: the caller's own, or, for whoever may delete the node for good, anybody's.
// Locked {by, until}: it is somebody else's.
func (m Marks) Unlock(ctx context.Context, who drive.Who, l lock.Lock) error {
	if l.User != who.User {
		_, err := m.enter(ctx, who, l.Node, access.Delete)
		if drive.IsKind(err, drive.Forbidden, drive.NotFound) {
			return l.Refusal()
		}
		if err != nil {
			return err
		}
	}
	return m.db.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return lock.Release(ctx, tx, l.ID) })
}

// LocksAt lists the locks that hold at a node that the caller sees, and with below those in it.
func (m Marks) LocksAt(ctx context.Context, who drive.Who, id drive.NodeID, below bool) ([]lock.Lock, error) {
	p, err := m.enter(ctx, who, id, access.Look)
	if err != nil {
		return nil, err
	}
	return m.rules.At(ctx, m.db.For(p.Who.Account), p.Who.Account, id, below)
}

// LocksOn lists the locks on nodes that the caller was shown, without those that hold there from
// above.
func (m Marks) LocksOn(ctx context.Context, nodes []drive.NodeID) ([]lock.Lock, error) {
	all, err := lock.On(ctx, m.db, drive.TimeOf(m.rules.Now()), nodes)
	if err != nil {
		return nil, err
	}
	return m.rules.Holding(ctx, m.db, all)
}

// LockRules are the rules of locks whose users must have a right to them as long as they hold.
func LockRules(now func() time.Time, a *access.Access) lock.Rules {
	return lock.Rules{Now: now, Lost: func(ctx context.Context, q sqldb.Querier, all []lock.Lock) (map[drive.LockID]bool, error) {
		var claims []access.Claim
		for _, l := range all {
			if !l.Own {
				claims = append(claims, access.Claim{User: l.User, Node: l.Node})
			}
		}
		may, err := access.Entitled(ctx, a, q, claims, access.Replace)
		lost := map[drive.LockID]bool{}
		for _, l := range all {
			lost[l.ID] = !l.Own && !may[access.Claim{User: l.User, Node: l.Node}]
		}
		return lost, err
	}}
}

// KeepLocks makes a tree ask for the locks of WebDAV.
func KeepLocks(opt *tree.Options, r lock.Rules) {
	opt.Replaces = func(ctx context.Context, tx *sqldb.Tx, n tree.Node, by drive.Who) error {
		return r.Check(ctx, tx, n.Account, n.ID, by, false)
	}
	opt.Leaves = func(ctx context.Context, tx *sqldb.Tx, n tree.Node, by drive.Who) error {
		return r.Leave(ctx, tx, n.Account, n.Parent, n.ID, by)
	}
	opt.Enters = func(ctx context.Context, tx *sqldb.Tx, in tree.Folder, by drive.Who) error {
		return r.Check(ctx, tx, in.Account, in.ID, by, false)
	}
	opt.Held = r.Held
}

// Properties returns the dead properties of nodes that the caller was shown, by id.
func (m Marks) Properties(ctx context.Context, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID][]property.Property, error) {
	return property.Find(ctx, m.db.For(who.Account), nodes)
}

// Setting says what SetProperties changes.
type Setting struct {
	MTime   drive.Time
	Changes []property.Change
	Expect  tree.Expect // what the caller decided by
}

// SetProperties changes dead properties of a live node, and its time unless that is zero: all of it
// or nothing.
func (m Marks) SetProperties(ctx context.Context, who drive.Who, id drive.NodeID, s Setting) error {
	p, err := m.enter(ctx, who, id, access.Edit)
	if err != nil {
		return err
	}
	return m.books.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := s.Expect.Check(ctx, tx, m.tree); err != nil {
			return err
		}
		n, err := m.live(ctx, tx, p.Who, id)
		if err != nil {
			return err
		}
		if len(s.Changes) > 0 {
			if err := m.rules.Check(ctx, tx, p.Who.Account, id, p.Who, false); err != nil {
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

// copyProperties gives a node that was copied in tx, and what is in it, the dead properties of its
// source.
func copyProperties(ctx context.Context, tx *sqldb.Tx, from, to tree.Node) error {
	any, err := property.Any(ctx, tx, from.Account)
	if err != nil || !any {
		return err
	}
	return property.Copy(ctx, tx, to.Account, from.ID, to.ID)
}

// DropEmpty deletes the empty version that a lock on an address without a file has made, when the
// file has got its content: it is not a part of the history. What is not empty, or the current
// version, stays.
func (m Marks) DropEmpty(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) error {
	p, err := m.enter(ctx, who, id, access.Replace)
	if err != nil {
		return err
	}
	return m.books.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := m.live(ctx, tx, p.Who, id)
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
		return m.books.drop(ctx, tx, p.Who.Account, gone)
	})
}
