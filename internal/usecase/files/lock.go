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
	now     func() drive.Time
	orphans *sqldb.Orphans // properties of nodes that were deleted for good
}

// NewMarks returns the marks of files.
func NewMarks(f *Files) Marks {
	return Marks{f.doors, f.books, f.now, &sqldb.Orphans{Table: "dav_properties", Key: "node_id", Owner: "node_id", Of: "nodes"}}
}

// Purge deletes the rows of locks that have ended, and in each call some of the properties of nodes
// that are gone.
func (m Marks) Purge(ctx context.Context) error {
	err := lock.Purge(ctx, m.db, m.now())
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
// are those of lock.Take.
func (m Marks) Lock(ctx context.Context, who drive.Who, l lock.Lock) (lock.Lock, error) {
	p, err := m.enter(ctx, who, l.Node, access.Replace)
	if err != nil {
		return lock.Lock{}, err
	}
	l.Account, l.User = p.Who.Account, who.User
	err = m.books.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if _, err := m.live(ctx, tx, p.Who, l.Node); err != nil {
			return err
		}
		l, err = lock.Take(ctx, tx, m.now(), l)
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
		return lock.Refresh(ctx, tx, m.now(), l.ID, who.User, lasts)
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
	q, now := m.db.For(p.Who.Account), m.now()
	any, err := lock.Any(ctx, q, now, p.Who.Account)
	if err != nil || !any {
		return nil, err
	}
	all, err := lock.At(ctx, q, now, id)
	if err == nil && below {
		var more []lock.Lock
		more, err = lock.Below(ctx, q, now, p.Who.Account, id)
		all = append(all, more...)
	}
	return all, err
}

// LocksOn lists the locks on nodes that the caller was shown, without those that hold there from
// above.
func (m Marks) LocksOn(ctx context.Context, nodes []drive.NodeID) ([]lock.Lock, error) {
	return lock.On(ctx, m.db, m.now(), nodes)
}

// KeepLocked returns what refuses a user another content of a node that somebody else has locked,
// for tree.Options.
func KeepLocked(now func() time.Time) func(context.Context, *sqldb.Tx, tree.Node, drive.UserID) error {
	return func(ctx context.Context, tx *sqldb.Tx, n tree.Node, by drive.UserID) error {
		return lock.Check(ctx, tx, drive.TimeOf(now()), n.Account, n.ID, by, false)
	}
}

// KeepPlace returns what refuses a user to take away a node that somebody else has locked, or
// something in it, and else ends their own locks there, for tree.Options.
func KeepPlace(now func() time.Time) func(context.Context, *sqldb.Tx, tree.Node, drive.UserID) error {
	return func(ctx context.Context, tx *sqldb.Tx, n tree.Node, by drive.UserID) error {
		return lock.Leave(ctx, tx, drive.TimeOf(now()), n.Account, n.ID, by)
	}
}

// Properties returns the dead properties of nodes that the caller was shown, by id.
func (m Marks) Properties(ctx context.Context, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID][]property.Property, error) {
	return property.Find(ctx, m.db.For(who.Account), nodes)
}

// SetProperties changes dead properties of a live node, and its time unless that is zero: all of it
// or nothing.
func (m Marks) SetProperties(ctx context.Context, who drive.Who, id drive.NodeID, mtime drive.Time, changes []property.Change) error {
	p, err := m.enter(ctx, who, id, access.Edit)
	if err != nil {
		return err
	}
	return m.books.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := m.live(ctx, tx, p.Who, id)
		if err != nil {
			return err
		}
		if mtime != 0 && !n.IsRoot() {
			if _, err := m.tree.Edit(ctx, tx, p.Who.Account, id, tree.Edit{MTime: mtime}); err != nil {
				return err
			}
		}
		return property.Set(ctx, tx, p.Who.Account, id, changes)
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
