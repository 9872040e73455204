package tree

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// File is content with the place where it shall appear.
type File struct {
	Parent   drive.NodeID
	Name     drive.Name
	Conflict drive.Conflict
	Base     drive.VersionID // as in Place

	Blob  drive.BlobID // the caller holds a reference for it, which now belongs to the version
	Size  drive.ByteSize
	MTime drive.Time // the client's; zero: now
	Mime  string
	By    drive.UserID
	Who   drive.Who // whose content it is for the activity log; zero: By, of whom no more is known

	Version drive.VersionID // of the version that it becomes, made before the transaction; zero: any
}

func (f File) version() drive.VersionID {
	if f.Version.IsZero() {
		return drive.NewID[drive.VersionID]()
	}
	return f.Version
}

func (f File) by() drive.Who {
	if f.Who.User.IsZero() {
		return drive.Who{User: f.By}
	}
	return f.Who
}

func (f File) place() Place { return Place{f.Parent, f.Name, f.Conflict, f.Base} }

// Placed is what PutFile did.
type Placed struct {
	Node    Node
	Created bool      // false: the file was there and got a version
	Dropped []Version // versions that went: the caller releases their blobs and takes their sizes off the ledger
}

// PutFile makes the content visible: as a new file, or as the next version of the one that the
// caller saw. The errors are ParentGone (missing, trashed or not a folder), NameTaken,
// VersionChanged {current}, BadName (too deep, path too long) and TooLarge (too many nodes).
func (t *Tree) PutFile(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, f File) (Placed, error) {
	if err := t.checkParent(ctx, tx, account, f.place(), Extent{}); err != nil {
		return Placed{}, err
	}
	there, name, err := t.settle(ctx, tx, account, f.place())
	if err != nil {
		return Placed{}, err
	}
	return t.put(ctx, tx, account, there, name, f)
}

// Target is where a path leads, as one transaction sees it.
type Target struct {
	Folder drive.NodeID
	There  Node // what has the name; zero: it is free
	path   drive.Path
}

// Aim looks up where a file shall be put, by one statement. With parents it makes the folders that
// are missing. The errors are NotFound (no such folder), ParentGone (it is a file), NameTaken (with
// parents: a file is in the way) and BadName (the root, too deep, path too long).
func (t *Tree) Aim(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, path drive.Path, parents bool) (Target, error) {
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

// PutFileAt is PutFile at a target of the same transaction, which it need not look up again:
// f.Parent and f.Name are not used.
func (t *Tree) PutFileAt(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, at Target, f File) (Placed, error) {
	_, f.Name, _ = at.path.Split()
	f.Parent = at.Folder
	there, name, err := t.decide(ctx, tx, account, f.place(), at.There)
	if err != nil {
		return Placed{}, err
	}
	return t.put(ctx, tx, account, there, name, f)
}

// put makes the content visible where it has been decided.
func (t *Tree) put(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, there Node, name drive.Name, f File) (Placed, error) {
	if f.MTime == 0 {
		f.MTime = t.now()
	}
	if !there.ID.IsZero() {
		dropped, err := t.addVersion(ctx, tx, &there, f)
		return Placed{Node: there, Dropped: dropped}, err
	}
	n, err := t.addFile(ctx, tx, account, name, f)
	if err == nil {
		err = t.opt.Arrived(ctx, tx, n)
	}
	return Placed{Node: n, Created: true}, err
}

func (t *Tree) addFile(ctx context.Context, tx *sqldb.Tx, account drive.AccountID, name drive.Name, f File) (Node, error) {
	if err := t.opt.Enters(ctx, tx, Folder{account, f.Parent}, f.by()); err != nil {
		return Node{}, err
	}
	seq, err := t.change(ctx, tx, account, 1, 1)
	if err != nil {
		return Node{}, err
	}
	n := fileNode(t.newNode(account, f.Parent, name, TypeFile), f)
	n.Seq = seq
	if err := t.insert(ctx, tx, Effect{Node: n, By: f.by()}); err != nil {
		return Node{}, err
	}
	return n, t.insertVersion(ctx, tx, n, f.By)
}

// fileNode is a new node as the file's, without its seq.
func fileNode(n Node, f File) Node {
	n.Version, n.Blob, n.Size, n.Mime = f.version(), f.Blob, f.Size, f.Mime
	if f.MTime != 0 {
		n.MTime = f.MTime
	}
	return n
}

func (t *Tree) newNode(account drive.AccountID, parent drive.NodeID, name drive.Name, typ Type) Node {
	now := t.now()
	return Node{
		ID: drive.NewID[drive.NodeID](), Account: account, Parent: parent, Name: name, Type: typ, Rev: 1,
		MTime: now, Created: now, Updated: now,
	}
}
