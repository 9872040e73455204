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
	*Files

	orphans *sqldb.Orphans // properties of nodes that were deleted for good
}

// NewMarks returns the marks of files.
func NewMarks(f *Files) Marks {
	return Marks{f, &sqldb.Orphans{Table: "dav_properties", Key: "node_id", Owner: "node_id", Of: "nodes"}}
}

// Purge deletes the rows of locks that have ended, and in each call some of the properties of nodes
// that are gone.
func (f Marks) Purge(ctx context.Context) error {
	err := lock.Purge(ctx, f.opt.DB, f.now())
	if err == nil {
		_, err = f.orphans.Delete(ctx, f.opt.DB)
	}
	return err
}

// Forget deletes the locks and the properties of an account.
func (f Marks) Forget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID) error {
	if err := lock.Forget(ctx, tx, account); err != nil {
		return err
	}
	return property.Forget(ctx, tx, account)
}

// Lock takes a lock on a live node; of l its node, scope, depth, owner and time are used. Errors
// are those of lock.Take.
func (f Marks) Lock(ctx context.Context, who drive.Who, l lock.Lock) (lock.Lock, error) {
	p, err := f.enter(ctx, who, l.Node, access.Replace)
	if err != nil {
		return lock.Lock{}, err
	}
	l.Account, l.User = p.Who.Account, who.User
	err = f.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		if _, err := f.live(ctx, tx, p.Who, l.Node); err != nil {
			return err
		}
		l, err = lock.Take(ctx, tx, f.now(), l)
		return err
	})
	return l, err
}

// Relock lets a lock of the caller's last from now on, while they may still take one. NotFound: it
// has ended.
func (f Marks) Relock(ctx context.Context, who drive.Who, l lock.Lock, lasts time.Duration) error {
	if _, err := f.enter(ctx, who, l.Node, access.Replace); err != nil {
		return err
	}
	return f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
		return lock.Refresh(ctx, tx, f.now(), l.ID, who.User, lasts)
	})
}

// Unlock ends a lock: the caller's own, or, for whoever may delete the node for good, anybody's.
// Locked {by, until}: it is somebody else's.
func (f Marks) Unlock(ctx context.Context, who drive.Who, l lock.Lock) error {
	if l.User != who.User {
		_, err := f.enter(ctx, who, l.Node, access.Delete)
		if drive.IsKind(err, drive.Forbidden, drive.NotFound) {
			return l.Refusal()
		}
		if err != nil {
			return err
		}
	}
	return f.opt.DB.Write(ctx, func(ctx context.Context, tx *sqldb.Tx) error { return lock.Release(ctx, tx, l.ID) })
}

// LocksAt lists the locks that hold at a node that the caller sees, and with below those in it.
func (f Marks) LocksAt(ctx context.Context, who drive.Who, id drive.NodeID, below bool) ([]lock.Lock, error) {
	p, err := f.enter(ctx, who, id, access.Look)
	if err != nil {
		return nil, err
	}
	q, now := f.opt.DB.For(p.Who.Account), f.now()
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
func (f Marks) LocksOn(ctx context.Context, nodes []drive.NodeID) ([]lock.Lock, error) {
	return lock.On(ctx, f.opt.DB, f.now(), nodes)
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
func (f Marks) Properties(ctx context.Context, who drive.Who, nodes []drive.NodeID) (map[drive.NodeID][]property.Property, error) {
	return property.Find(ctx, f.opt.DB.For(who.Account), nodes)
}

// SetProperties changes dead properties of a live node, and its time unless that is zero: all of it
// or nothing.
func (f Marks) SetProperties(ctx context.Context, who drive.Who, id drive.NodeID, mtime drive.Time, changes []property.Change) error {
	p, err := f.enter(ctx, who, id, access.Edit)
	if err != nil {
		return err
	}
	return f.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := f.live(ctx, tx, p.Who, id)
		if err != nil {
			return err
		}
		if mtime != 0 && !n.IsRoot() {
			if _, err := f.opt.Tree.Edit(ctx, tx, p.Who.Account, id, tree.Edit{MTime: mtime}); err != nil {
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
// file has got its content: it is no part of the history. What is not empty, or the current
// version, stays.
func (f Marks) DropEmpty(ctx context.Context, who drive.Who, id drive.NodeID, version drive.VersionID) error {
	p, err := f.enter(ctx, who, id, access.Replace)
	if err != nil {
		return err
	}
	return f.write(ctx, p.Who, func(ctx context.Context, tx *sqldb.Tx) error {
		n, err := f.live(ctx, tx, p.Who, id)
		if err != nil {
			return err
		}
		v, err := f.opt.Tree.FindVersion(ctx, tx, id, version)
		if err != nil || v.Size != 0 {
			return err
		}
		gone, err := f.opt.Tree.DropVersion(ctx, tx, n, version)
		if err != nil {
			return err
		}
		return f.drop(ctx, tx, p.Who.Account, gone)
	})
}
