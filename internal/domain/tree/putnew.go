package tree

import (
	"context"
	"fmt"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/sqldb"
)

// Newcomers puts many files of an account that are new, by few statements: Aim finds out which of
// them are, Put puts those. The others go one by one, by Tree.Aim and Tree.PutFileAt, after them.
type Newcomers struct {
	Tree    *Tree
	Account drive.AccountID
}

// Wanted is a file that may be new.
type Wanted struct {
	Path     drive.Path
	Parents  bool // as in Aim
	Conflict drive.Conflict
	Apart    bool // it goes one by one in any case, and may be refused: nothing is made for it
}

// Aim returns the targets of those of the files, in the order in which they came, that go to a
// free name of a folder that is there, or that it has made. The target of any other is zero: what
// it does depends on what is there, or on one before it. To put first those that have a target and
// then the others comes to the same as to put them in their order. When it fails, it may have made
// folders.
func (n Newcomers) Aim(ctx context.Context, tx *sqldb.Tx, files []Wanted) ([]Target, error) {
	a := aiming{tree: n.Tree, tx: tx, account: n.Account, folders: map[string]drive.NodeID{}, matters: map[string]bool{}}
	targets := make([]Target, len(files))
	of := map[drive.NodeID][]int{}
	for i, w := range files {
		folder, err := a.folder(ctx, w)
		if err != nil {
			return nil, err
		}
		if !folder.IsZero() {
			targets[i] = Target{Folder: folder, path: w.Path}
			of[folder] = append(of[folder], i)
		}
	}
	for folder, some := range of {
		if err := a.dropTaken(ctx, folder, some, targets); err != nil {
			return nil, err
		}
	}
	dropBehindRenamed(files, targets)
	return targets, nil
}

// aiming is one Aim. Its keys are paths as text.
type aiming struct {
	tree    *Tree
	tx      *sqldb.Tx
	account drive.AccountID
	folders map[string]drive.NodeID // that were looked up; zero: there is none that a new file could go to
	// matters is what files that came before depend on: their own names, and those of folders that
	// they did not find.
	matters map[string]bool
}

// folder returns the folder of a file that may be new, zero: it is not.
func (a *aiming) folder(ctx context.Context, w Wanted) (drive.NodeID, error) {
	above, name, ok := w.Path.Split()
	if !ok {
		return drive.NodeID{}, nil
	}
	path, folder := w.Path.String(), above.String()
	behind := a.matters[path]
	a.matters[path] = true
	if w.Apart {
		a.await(above)
		return drive.NodeID{}, nil
	}
	if fits := checkLimits(above, name, Extent{}) == nil; behind || !fits {
		return drive.NodeID{}, nil
	}
	id, known := a.folders[folder]
	if known {
		return id, nil
	}
	id, err := a.findOrMake(ctx, above, w.Parents)
	if a.folders[folder] = id; id.IsZero() {
		a.await(above)
	}
	return id, err
}

// await says that a file which goes later depends on whether there are these folders.
func (a *aiming) await(folder drive.Path) {
	for n := range folder {
		a.matters[folder[:n+1].String()] = true
	}
}

func (a *aiming) findOrMake(ctx context.Context, path drive.Path, parents bool) (drive.NodeID, error) {
	last, depth, err := a.tree.descend(ctx, a.tx, a.account, path)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return drive.NodeID{}, nil
	case err != nil:
		return drive.NodeID{}, err
	case !last[0].IsFolder(), depth < len(path) && (!parents || a.anyMatters(path)):
		return drive.NodeID{}, nil
	}
	folder := last[0]
	for _, missing := range path[depth:] {
		if folder, err = a.tree.addFolder(ctx, a.tx, a.account, folder.ID, missing); err != nil {
			return drive.NodeID{}, err
		}
	}
	return folder.ID, nil
}

// anyMatters reports whether a file that came before depends on whether one of these folders is
// made.
func (a *aiming) anyMatters(folder drive.Path) bool {
	for n := range folder {
		if a.matters[folder[:n+1].String()] {
			return true
		}
	}
	return false
}

// dropTaken takes the targets from those files of a folder whose names are taken.
func (a *aiming) dropTaken(ctx context.Context, folder drive.NodeID, some []int, targets []Target) error {
	of := make(map[drive.Name]int, len(some))
	names := make([]drive.Name, len(some))
	for k, i := range some {
		_, names[k], _ = targets[i].path.Split()
		of[names[k]] = i
	}
	marks, args := sqldb.In(names)
	rows, err := a.tx.Query(ctx, "SELECT slot FROM nodes WHERE parent_id = ? AND slot IN ("+marks+")", append([]any{folder}, args...)...)
	taken, err := sqldb.Scan(rows, err, func(name *drive.Name, scan func(...any) error) error { return scan(name) })
	if err != nil {
		return fmt.Errorf("look for %d names: %w", len(names), err)
	}
	for _, name := range taken {
		targets[of[name]] = Target{}
	}
	return nil
}

// dropBehindRenamed takes the targets from files that come behind one, in the same folder, that
// gets another name: it may be one of theirs.
func dropBehindRenamed(files []Wanted, targets []Target) {
	renamed := map[string]bool{}
	for i, w := range files {
		above, _, _ := w.Path.Split()
		switch folder := above.String(); {
		case renamed[folder]:
			targets[i] = Target{}
		case w.Conflict == drive.ConflictRename && targets[i].Folder.IsZero():
			renamed[folder] = true
		}
	}
}

// Put is Tree.PutFileAt of files at targets that Aim found in the same transaction, one for each.
func (n Newcomers) Put(ctx context.Context, tx *sqldb.Tx, targets []Target, files []File) ([]Placed, error) {
	count := int64(len(files))
	if count == 0 {
		return nil, nil
	}
	if err := n.mayEnter(ctx, tx, targets, files); err != nil {
		return nil, err
	}
	last, err := n.Tree.change(ctx, tx, n.Account, count, count)
	if err != nil {
		return nil, err
	}
	placed := make([]Placed, count)
	nodes, versions := make([][]any, count), make([][]any, count)
	for i, f := range files {
		f.Parent = targets[i].Folder
		_, name, _ := targets[i].path.Split()
		node := fileNode(n.Tree.newNode(n.Account, f.Parent, name, TypeFile), f)
		node.Seq = last - count + 1 + int64(i)
		placed[i] = Placed{Node: node, Created: true}
		nodes[i], versions[i] = nodeRow(node), versionRow(node, f.By)
	}
	if err := tx.InsertRows(ctx, insertNodes, nodes); err != nil {
		return nil, fmt.Errorf("insert %d nodes: %w", count, err)
	}
	if err := tx.InsertRows(ctx, insertVersions, versions); err != nil {
		return nil, fmt.Errorf("insert %d versions: %w", count, err)
	}
	for i, p := range placed {
		n.Tree.sums.made(tx, p.Node)
		n.Tree.opt.Happened(tx, Effect{Node: p.Node, By: files[i].by()})
		if err := n.Tree.opt.Arrived(ctx, tx, p.Node); err != nil {
			return nil, err
		}
	}
	return placed, nil
}

// mayEnter asks for each folder and each of those who put something there once.
func (n Newcomers) mayEnter(ctx context.Context, tx *sqldb.Tx, targets []Target, files []File) error {
	type entry struct {
		folder drive.NodeID
		by     drive.Who
	}
	asked := map[entry]bool{}
	for i, f := range files {
		e := entry{targets[i].Folder, f.by()}
		if asked[e] {
			continue
		}
		asked[e] = true
		if err := n.Tree.opt.Enters(ctx, tx, Folder{n.Account, e.folder}, e.by); err != nil {
			return err
		}
	}
	return nil
}
