package files

import (
	"context"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
	"example.org/smartdrive/internal/domain/property"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// Mkdir describes the folder that Files.Mkdir creates.
type Mkdir struct {
	Parent         drive.NodeID // zero: the folder at Path
	Place          string       // space or shared folder that Path is relative to; empty: the caller's own drive
	Path           drive.Path   // of the parent
	Parents        bool         // create missing folders of Path
	Name           drive.Name
	Conflict       drive.Conflict // fail or rename
	Replaces       drive.NodeID   // with Parent: the node of that name that is replaced and goes to the trash; zero: none
	PropertiesFrom drive.NodeID   // folder whose dead properties are copied; zero: none
	Expect         tree.Expect    // what the caller has read and relies on
	Hook           Hook
}

// Mkdir creates a folder and returns it in the Result. It fails with NotFound if the parent is
// missing and Parents is not set, and with NameTaken under the policy fail.
func (f *Files) Mkdir(ctx context.Context, who drive.Who, m Mkdir) (r Result, err error) {
	p, err := f.authorizeMkdir(ctx, who, &m)
	if err == nil {
		err = f.authorizeReplaced(ctx, who, m.Replaces)
	}
	if err == nil && !m.PropertiesFrom.IsZero() {
		_, err = f.authorize(ctx, who, m.PropertiesFrom, access.Read)
	}
	if err != nil {
		return Result{}, err
	}
	who = p.Who
	err = f.write(ctx, who, func(ctx context.Context, tx *sqldb.Tx) error {
		if err := m.Expect.Check(ctx, tx, f.opt.Tree); err != nil {
			return err
		}
		if err := f.trashReplaced(ctx, tx, tree.Place{Parent: m.Parent, Name: m.Name}, who.Account, m.Replaces); err != nil {
			return err
		}
		n, err := f.MakeFolder(ctx, tx, who, m)
		if err == nil && !m.PropertiesFrom.IsZero() {
			err = property.Copy(ctx, tx, who.Account, m.PropertiesFrom, n.ID)
		}
		if err != nil {
			return err
		}
		r, err = f.result(ctx, tx, p, n, m.Hook)
		return err
	})
	return r, err
}

// authorizeMkdir checks that the caller may create the folder. It replaces m.Path, relative to
// m.Place, by a path in the target account, or sets m.Parent if the parent exists.
func (a *authorizer) authorizeMkdir(ctx context.Context, who drive.Who, m *Mkdir) (access.Pass, error) {
	switch {
	case !m.Parent.IsZero():
		return a.authorize(ctx, who, m.Parent, access.MakeFolder)
	case m.Place == "":
		return access.Pass{Who: who, Rights: access.All}, nil
	}
	p, at, rest, err := a.authorizePath(ctx, who, drive.Address{Place: m.Place, Path: m.Path}, access.MakeFolder)
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
	to, err := a.access.Find(ctx, a.db, who, drive.Address{Place: m.Place, Path: m.Path})
	m.Path = to.Path
	p.Node, p.Level = drive.NodeID{}, p.Level+len(rest) // the parent will be created below the existing folder
	return p, err
}

// MakeFolder creates a folder in the account of who, within a transaction that holds the lock on
// the ledger. The caller has checked access. m.Hook is not called, and m.Place must be empty.
func (f *Files) MakeFolder(ctx context.Context, tx *sqldb.Tx, who drive.Who, m Mkdir) (tree.Node, error) {
	parent, err := f.parent(ctx, tx, who, m)
	if err != nil {
		return tree.Node{}, err
	}
	return f.opt.Tree.CreateFolder(ctx, tx, who.Account, tree.Place{Parent: parent, Name: m.Name, Conflict: m.Conflict})
}

// parent returns the id of the parent folder of m. With m.Parents it creates missing folders within
// tx; otherwise a missing one is an error.
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
