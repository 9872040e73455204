package tree

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// File is content and the place where it becomes visible.
type File struct {
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
	Base     drive.VersionID // as in Place

	Blob  drive.BlobID // the caller has added a reference, which the version takes over
	Size  drive.ByteSize
	MTime drive.Time   // from the client; zero: now
	Mime  string       // MIME type of the content
	By    drive.UserID // author of the version
	Who   drive.Who    // author for the activity log; zero: only By is known

	source  Node            // of a copy; see CopyOf
	Version drive.VersionID // id of the new version, if created before the transaction; zero: a new id
}

// versionID returns f.Version, or a new id if it is zero.
func (f File) versionID() drive.VersionID {
	if f.Version.IsZero() {
		return drive.NewID[drive.VersionID]()
	}
	return f.Version
}

// author returns f.Who, or the user f.By if it is zero.
func (f File) author() drive.Who {
	if f.Who.User.IsZero() {
		return drive.Who{User: f.By}
	}
	return f.Who
}

// place returns where f is to be put: the folder, the name, what happens if the name is taken, and
// the version that a replaced file must have.
func (f File) place() Place { return Place{f.Parent, f.Name, f.Conflict, f.Base} }

// PutResult is the result of PutFile.
type PutResult struct {
	Node    Node
	Created bool      // false: an existing file got a version
	Dropped []Version // dropped versions; the caller releases their blobs and subtracts their sizes from the ledger
}

// PutFile makes content visible, as a new file or as the next version of the file that the caller
// saw. It fails with ParentGone (parent missing, trashed or not a folder), NameTaken,
// VersionChanged {current}, BadName (too deep, path too long) or TooLarge (too many nodes, versions
// or changes).
func (t *Tree) PutFile(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, f File) (PutResult, error) {
	if err := t.checkParent(ctx, tx, account, f.place(), Extent{}); err != nil {
		return PutResult{}, err
	}
	there, name, err := t.resolvePlace(ctx, tx, account, f.place())
	if err != nil {
		return PutResult{}, err
	}
	return t.put(ctx, tx, account, there, name, f)
}

// Target is a path resolved within one transaction.
type Target struct {
	Folder   drive.NodeID // the folder that the file goes to
	Existing Node         // the node with the name; zero: the name is free
	path     drive.Path
}

// ResolveTarget resolves the path of a file to be put, with one statement. If parents is set, it
// creates missing folders. It fails with NotFound (no such folder), ParentGone (the parent is a
// file), NameTaken (with parents: a file is in the way) or BadName (the root, too deep, path too
// long).
func (t *Tree) ResolveTarget(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, path drive.Path, parents bool) (Target, error) {
	above, name, ok := path.Split()
	if !ok {
		return Target{}, drive.Fail(drive.BadName, "reason", "empty")
	}
	last, depth, err := t.descend(ctx, tx, account, path)
	switch {
	case err != nil:
		return Target{}, err
	case depth == len(path):
		return Target{last[1].ID, last[0], path}, checkLimits(above, name, Extent{})
	case depth < len(above) && !parents:
		return Target{}, drive.Fail(drive.NotFound)
	case !last[0].IsFolder() && !parents:
		return Target{}, drive.Fail(drive.ParentGone)
	case !last[0].IsFolder():
		return Target{}, nameTaken(last[0].Name)
	}
	if err := checkLimits(above, name, Extent{}); err != nil {
		return Target{}, err
	}
	folder := last[0]
	for _, missing := range above[depth:] {
		if folder, err = t.addFolder(ctx, tx, account, folder.ID, missing); err != nil {
			return Target{}, err
		}
	}
	return Target{Folder: folder.ID, path: path}, nil
}

// PutFileAt makes content visible as a new file or as the next version of a file, at a target
// resolved in the same transaction, without further lookups; f.Parent and f.Name are ignored. It
// fails with NameTaken or VersionChanged {current} by the conflict policy of f, and with TooLarge
// (too many nodes, versions or changes).
func (t *Tree) PutFileAt(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, at Target, f File) (PutResult, error) {
	_, f.Name, _ = at.path.Split()
	f.Parent = at.Folder
	there, name, err := t.resolveConflict(ctx, tx, account, f.place(), at.Existing)
	if err != nil {
		return PutResult{}, err
	}
	return t.put(ctx, tx, account, there, name, f)
}

// put stores f as a version of there, or as a new file with the name if there is zero.
func (t *Tree) put(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, there Node, name drive.Name, f File) (PutResult, error) {
	if f.MTime == 0 {
		f.MTime = t.now()
	}
	if !there.ID.IsZero() {
		dropped, err := t.addVersion(ctx, tx, &there, f)
		return PutResult{Node: there, Dropped: dropped}, err
	}
	n, err := t.addFile(ctx, tx, account, name, f)
	if err == nil {
		err = t.opt.OnPlaced(ctx, tx, n)
	}
	return PutResult{Node: n, Created: true}, err
}

// addFile creates a file and its first version. The caller has checked that the name is free in the
// folder. It fails with the error of Options.CheckAdd, and as allocSeqs does if the account may
// have no more nodes or changes.
func (t *Tree) addFile(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, name drive.Name, f File) (Node, error) {
	if err := t.opt.CheckAdd(ctx, tx, Folder{account, f.Parent}, f.author()); err != nil {
		return Node{}, err
	}
	seq, err := t.allocSeqs(ctx, tx, account, 1, 1)
	if err != nil {
		return Node{}, err
	}
	n := fileNode(t.newNode(account, f.Parent, name, TypeFile), f)
	n.Seq = seq
	if err := t.insert(ctx, tx, Effect{Node: n, By: f.author()}); err != nil {
		return Node{}, err
	}
	return n, t.insertVersion(ctx, tx, n, f.By)
}

// fileNode returns n with the content and time of f, and the fields that a copy keeps.
func fileNode(n Node, f File) Node {
	if !f.source.ID.IsZero() {
		n.carry(f.source)
	}
	n.Version, n.Blob, n.Size, n.Mime = f.versionID(), f.Blob, f.Size, f.Mime
	if f.MTime != 0 {
		n.MTime = f.MTime
	}
	return n
}

// newNode returns a new node with revision 1 and without a seq.
func (t *Tree) newNode(account drive.AccountID, parent drive.NodeID, name drive.Name, typ Type) Node {
	now := t.now()
	return Node{
		ID: drive.NewID[drive.NodeID](), Account: account, Parent: parent, Name: name, Type: typ, Rev: 1,
		MTime: now, Created: now, Updated: now,
	}
}
