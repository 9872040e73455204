package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
	"smartdrive/internal/domain/property"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Mkdir says what folder shall be made.
type Mkdir struct {
	Parent   drive.NodeID // zero: the folder at Path
	Place    string       // where the path is; empty: the caller's own drive
	Path     drive.Path   // of the parent
	Parents  bool         // make what is missing of Path
	Name     drive.Name
	Conflict drive.Conflict // fail or rename
	Over     drive.NodeID   // what is in the way, with Parent: it goes to the trash
	Like     drive.NodeID   // a folder whose dead properties it gets; zero: none
	Expect   tree.Expect    // what the caller decided by
	Hook     Hook
}

// Mkdir makes a folder.
func (f *Files) Mkdir(ctx context.Context, who drive.Who, m Mkdir) (r Result, err error) {
	p, err := f.enterMade(ctx, who, &m)
	if err == nil {
		err = f.mayClear(ctx, who, m.Over)
	}
	if err == nil && !m.Like.IsZero() {
		_, err = f.enter(ctx, who, m.Like, access.Read)
	}
	if err != nil {
		return Result{}, err
	}
	who = p.Who
	err = f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := m.Expect.Check(ctx, tx, f.opt.Tree); err != nil {
			return err
		}
		if err := f.clear(ctx, tx, tree.Place{Parent: m.Parent, Name: m.Name}, who.Account, m.Over); err != nil {
			return err
		}
		n, err := f.MakeFolder(ctx, tx, who, m)
		if err == nil && !m.Like.IsZero() {
			err = property.Copy(ctx, tx, who.Account, m.Like, n.ID)
		}
		if err != nil {
			return err
		}
		r, err = f.answer(ctx, tx, p, n, m.Hook)
		return err
	})
	return r, err
}

// enterMade lets the caller make a folder. A path in another place becomes one in its account.
func (d *doors) enterMade(ctx context.Context, who drive.Who, m *Mkdir) (access.Pass, error) {
	switch {
	case !m.Parent.IsZero():
		return d.enter(ctx, who, m.Parent, access.MakeFolder)
	case m.Place == "":
		return access.Pass{Who: who, Rights: access.All}, nil
	}
	p, at, rest, err := d.enterPath(ctx, who, drive.Address{Place: m.Place, Path: m.Path}, access.MakeFolder)
	if err == nil && len(rest) > 0 && !m.Parents {
		err = drive.Fail(drive.NotFound)
	}
	if err != nil {
		return access.Pass{}, err
	}
	if len(rest) == 0 {
		m.Parent = at.ID
		return p, nil
	}
	to, err := d.access.Find(ctx, d.db, who, drive.Address{Place: m.Place, Path: m.Path})
	m.Path = to.Path
	p.Node, p.Level = drive.NodeID{}, p.Level+len(rest) // the parent is made so far below
	return p, err
}

// MakeFolder is Mkdir in the account of who, by somebody who may, within a transaction that has the
// lock on the ledger; m.Hook is not called, and m.Place is empty.
func (f *Files) MakeFolder(ctx context.Context, tx *sqldb.Tx, who drive.Who, m Mkdir) (tree.Node, error) {
	parent, err := f.parent(ctx, tx, who, m)
	if err != nil {
		return tree.Node{}, err
	}
	return f.opt.Tree.CreateFolder(ctx, tx, who.Account, tree.Place{Parent: parent, Name: m.Name, Conflict: m.Conflict})
}

func (f *Files) parent(ctx context.Context, tx *sqldb.Tx, who drive.Who, m Mkdir) (drive.NodeID, error) {
	switch {
	case !m.Parent.IsZero():
		return m.Parent, nil
	case m.Parents:
		n, err := f.opt.Tree.EnsureFolders(ctx, tx, who.Account, m.Path)
		return n.ID, err
	}
	n, err := f.opt.Tree.Resolve(ctx, tx, who.Account, m.Path)
	return n.ID, err
}
