package tree

import (
	"context"
	"errors"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Expect lists what a caller read before a transaction and relies on: the location and revision of
// nodes, names that are free, locks that are held. The caller of a change passes it, and the change
// calls Check in its transaction. The zero value expects nothing.
type Expect struct {
	Rev   int64          // revision of the changed node; zero: any. A mismatch is Precondition {current}.
	Seen  []SeenNode     // a mismatch is stale
	Locks []drive.LockID // locks that must still be held; else stale

	// Trashed is the trash time that MarkForPurge compares: that of the node or of the nearest
	// trashed folder above it, as in Location; zero: any. A mismatch is Precondition {current}.
	Trashed drive.Time
}

// SeenNode is one node as the caller read it, or a name that was free.
type SeenNode struct {
	Parent drive.NodeID // the node's folder; zero: not compared
	Name   drive.Name   // in Parent
	Node   drive.NodeID // zero: Name was free in Parent

	Rev     int64           // the node's revision; zero: any
	Version drive.VersionID // the file's current version; zero: any
}

// errStale marks the refusal of a change that was based on outdated reads.
var errStale = errors.New("what the caller has read has changed since")

// IsStale reports whether a change was refused because data changed since the caller read it.
// Nothing was written; the caller may read again and retry.
func IsStale(err error) bool { return errors.Is(err, errStale) }

// IsEmpty reports whether Check has nothing to compare; Rev and Trashed do not count.
func (e Expect) IsEmpty() bool { return len(e.Seen) == 0 && len(e.Locks) == 0 }

// Check compares the expectations with the database. It fails with an error of kind Precondition
// that IsStale recognizes. It does not check Rev and Trashed; the changing method does. The
// transaction holds the ledger lock of each account it changes, so the result stays valid until
// commit.
func (e Expect) Check(ctx context.Context, q sqldb.Querier, t *Tree) error {
	for _, s := range e.Seen {
		same, err := s.isUnchanged(ctx, q, t.Reader)
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
	held, err := t.opt.LocksHeld(ctx, q, e.Locks)
	if err == nil && !held {
		err = drive.Wrap(errStale, drive.Precondition)
	}
	return err
}

// isUnchanged reports whether the database still matches s. If s has no node, it matches while the
// name in s.Parent is free. Else the node must exist outside of the trash and have the parent,
// name, revision and version of s, of which zero values match anything; a missing node is false
// without an error.
func (s SeenNode) isUnchanged(ctx context.Context, q sqldb.Querier, r Reader) (bool, error) {
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
