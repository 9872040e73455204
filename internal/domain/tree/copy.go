package tree

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// carry sets the fields of n that a copy of src keeps. Every copy of a node calls it, so that a new
// field of Node needs one line here, or a reason in the test of copies (usecase/files) why a copy
// does not keep it.
func (n *Node) carry(src Node) {
	n.MTime, n.Blob, n.Size, n.Mime = src.MTime, src.Blob, src.Size, src.Mime
}

// CopyOf returns the file that copies src to a place, written by who. The caller has added a
// reference to the blob of src. If PutFile replaces a file with it, that file gets the content and
// keeps its other fields.
func CopyOf(src Node, p Place, who drive.Who) File {
	return File{
		Parent: p.Parent, Name: p.Name, Conflict: p.Conflict, Base: p.Base, source: src,
		Blob: src.Blob, Size: src.Size, MTime: src.MTime, Mime: src.Mime, By: who.User, Who: who,
	}
}

// A folder is copied as a branch: its top is trashed and owned by the operation, which hides it
// until Reveal makes the complete copy visible at once. An abandoned branch is purged.

// StartBranch creates the hidden top of a copy of the folder src. It fails with ParentGone or
// BadName if the place is not valid; Reveal checks again.
func (t *Tree) StartBranch(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, src Node, p Place, below Extent, op drive.OperationID) (Node, error) {
	if err := t.checkParent(ctx, tx, account, p, below); err != nil {
		return Node{}, err
	}
	if err := t.opt.CheckAdd(ctx, tx, Folder{account, p.Parent}, tx.Actor()); err != nil {
		return Node{}, err
	}
	seq, err := t.allocSeqs(ctx, tx, account, 1, 1)
	if err != nil {
		return Node{}, err
	}
	n := t.newNode(account, p.Parent, p.Name, TypeFolder)
	n.carry(src)
	n.Seq, n.Trashed, n.Operation = seq, n.Created, op
	return n, t.insert(ctx, tx, Effect{Node: n})
}

// CopyInto copies nodes, without descendants, into a folder where their names are free, and returns
// the copies in the same order. by becomes the author of the copied versions. The caller has added
// a reference to the blob of each file. It fails as allocSeqs does if the account may have no more
// nodes or changes.
func (t *Tree) CopyInto(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, folder drive.NodeID, from []Node, by drive.UserID) ([]Node, error) {
	last, err := t.allocSeqs(ctx, tx, account, int64(len(from)), int64(len(from)))
	if err != nil {
		return nil, err
	}
	copies := make([]Node, len(from))
	for i, src := range from {
		n := t.newNode(account, folder, src.Name, src.Type)
		n.carry(src)
		n.Seq = last - int64(len(from)-1-i)
		if src.Type == TypeFile {
			n.Version = drive.NewID[drive.VersionID]()
		}
		if err := t.insert(ctx, tx, Effect{Node: n, From: src.ID}); err != nil {
			return nil, err
		}
		if src.Type == TypeFile {
			if err := t.insertVersion(ctx, tx, n, by); err != nil {
				return nil, err
			}
		}
		copies[i] = n
	}
	return copies, nil
}

// Reveal makes the branch of an operation visible, at the top's own parent and name unless r names
// others. A branch that is already visible is returned unchanged. It fails like Restore.
func (t *Tree) Reveal(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, top drive.NodeID, r Restore) (Node, error) {
	if _, err := t.allocSeqs(ctx, tx, account, 0, 0); err != nil {
		return Node{}, err
	}
	n, err := t.queryNode(ctx, tx, "WHERE n.id = ? AND n.account_id = ?", top, account)
	if err != nil || n.Operation.IsZero() {
		return n, err
	}
	up, err := t.readChain(ctx, tx, top)
	if err != nil {
		return Node{}, err
	}
	if r.Parent.IsZero() {
		r.Parent = n.Parent
	}
	return t.makeLive(ctx, tx, n, up, r)
}
