package files

import (
	"context"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/engine/sqldb"
)

// Mkdir says what folder shall be made.
type Mkdir struct {
	Parent   drive.NodeID // zero: the folder at Path
	Path     drive.Path   // of the parent
	Parents  bool         // make what is missing of Path
	Name     drive.Name
	Conflict drive.Conflict // fail or rename
	Hook     Hook
}

// Mkdir makes a folder.
func (f *Files) Mkdir(ctx context.Context, who drive.Who, m Mkdir) (r Result, err error) {
	err = f.write(ctx, who.Account, func(ctx context.Context, tx *sqldb.Tx) error {
		parent, err := f.parent(ctx, tx, who, m)
		if err != nil {
			return err
		}
		n, err := f.opt.Tree.CreateFolder(ctx, tx, who.Account, tree.Place{Parent: parent, Name: m.Name, Conflict: m.Conflict})
		if err != nil {
			return err
		}
		r, err = f.answer(ctx, tx, n, m.Hook)
		return err
	})
	return r, err
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
