package tree

import (
	"context"
	"errors"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Expect lists what a caller has read and decided by, before the transaction that changes
// something: where a node is, which revision it has, that a name is free, that a lock is held. The
// use case calls Check in that transaction. The zero value expects nothing.
type Expect struct {
	Rev   int64          // the revision of the node that is changed; zero: any. Another one is Precondition {current}.
	Seen  []Seen         // anything else is stale
	Locks []drive.LockID // locks that are held; one that has ended is stale
}

// Seen is one node as the caller has read it, or one name that was free.
type Seen struct {
	Parent drive.NodeID // the folder; zero: the node may be anywhere
	Name   drive.Name   // in Parent
	Node   drive.NodeID // zero: the name was free

	Rev     int64           // the node's revision; zero: any
	Version drive.VersionID // the file's current version; zero: any
}

// errStale marks the refusal of a change that was decided by what is no longer so.
var errStale = errors.New("what the caller has read has changed since")

// IsStale reports whether a change was refused because something has changed since the caller read
// it. Nothing was written: a caller that can, reads again and decides again.
func IsStale(err error) bool { return errors.Is(err, errStale) }

// IsEmpty reports whether Check has nothing to compare.
func (e Expect) IsEmpty() bool { return len(e.Seen) == 0 && len(e.Locks) == 0 }

// Check compares what the caller expects with what is there now; Rev is left to the method that
// changes the node. The transaction has the lock on the ledger of each account that it changes, so
// that nothing of it moves before the commit. An error that IsStale is of kind Precondition.
func (e Expect) Check(ctx context.Context, q sqldb.Querier, t *Tree) error {
	for _, s := range e.Seen {
		same, err := s.holds(ctx, q, t.Reader)
		if err != nil {
			return err
		}
		if !same {
			return drive.Wrap(errStale, drive.Precondition)
		}
	}
	if len(e.Locks) == 0 {
		return nil
	}
	held, err := t.opt.Held(ctx, q, e.Locks)
	if err == nil && !held {
		err = drive.Wrap(errStale, drive.Precondition)
	}
	return err
}

// holds reports whether things are as they were seen.
func (s Seen) holds(ctx context.Context, q sqldb.Querier, r Reader) (bool, error) {
	if s.Node.IsZero() {
		_, err := r.queryNode(ctx, q, "WHERE n.parent_id = ? AND n.slot = ?", s.Parent, s.Name)
		if drive.IsKind(err, drive.NotFound) {
			return true, nil
		}
		return false, err
	}
	n, err := r.queryNode(ctx, q, "WHERE n.id = ?", s.Node)
	if drive.IsKind(err, drive.NotFound) {
		return false, nil
	}
	moved := !s.Parent.IsZero() && (n.Parent != s.Parent || n.Name != s.Name)
	changed := s.Rev != 0 && s.Rev != n.Rev || !s.Version.IsZero() && s.Version != n.Version
	return err == nil && !moved && !changed && n.Trashed == 0, err
}
