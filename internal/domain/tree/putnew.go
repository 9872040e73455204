package tree

import (
	"context"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/sqldb"
)

// NewFileBatch creates many new files of an account with few statements. ResolveTargets determines
// which files are certainly new, and Put creates those. The caller then puts the others one by one
// with Tree.ResolveTarget and Tree.PutFileAt.
type NewFileBatch struct {
	Tree    *Tree
	Account drive.AccountID
}

// BatchFile is a file of a batch that may be new.
type BatchFile struct {
	Path     drive.Path
	Parents  bool // create missing folders
	Conflict drive.Conflict
	Separate bool // the caller puts this file on its own and may refuse it, so no folder is created for it
}

// ResolveTargets returns one target per file. It is set for a file whose folder exists, or was
// created by this call, and whose name is free. It is zero for a file that depends on an existing
// node or on an earlier file. Putting first the files with a target and then the others has the
// same result as putting all in order. On error, folders may have been created.
func (n NewFileBatch) ResolveTargets(ctx context.Context, tx *sqldb.Tx, files []BatchFile) ([]Target, error) {
	a := targetResolver{tree: n.Tree, tx: tx, account: n.Account, folders: map[string]drive.NodeID{}, dependencies: map[string]bool{}}
	targets := make([]Target, len(files))
	of := map[drive.NodeID][]int{}
	for i, w := range files {
		folder, err := a.folderFor(ctx, w)
		if err != nil {
			return nil, err
		}
		if !folder.IsZero() {
			targets[i] = Target{Folder: folder, path: w.Path}
			of[folder] = append(of[folder], i)
		}
	}
	for folder, some := range of {
		if err := a.clearTaken(ctx, folder, some, targets); err != nil {
			return nil, err
		}
	}
	clearAfterRename(files, targets)
	return targets, nil
}

// targetResolver is the state of one call of NewFileBatch.ResolveTargets. Its map keys are paths as
// text.
type targetResolver struct {
	tree    *Tree
	tx      *sqldb.Tx
	account drive.AccountID
	folders map[string]drive.NodeID // resolved folders; zero: no target possible
	// dependencies are paths on which the result for earlier files depends: their own, and those of
	// folders that they did not find.
	dependencies map[string]bool
}

// folderFor returns the folder that a file may be put into together with the other files of the
// batch. Zero: the file must be put on its own, because its target is invalid, does not exist, or
// depends on an earlier file of the batch.
func (r *targetResolver) folderFor(ctx context.Context, w BatchFile) (drive.NodeID, error) {
	above, name, ok := w.Path.Split()
	if !ok {
		return drive.NodeID{}, nil
	}
	path, folder := w.Path.String(), above.String()
	behind := r.dependencies[path]
	r.dependencies[path] = true
	if w.Separate {
		r.addDependencies(above)
		return drive.NodeID{}, nil
	}
	if fits := checkLimits(above, name, Extent{}) == nil; behind || !fits {
		return drive.NodeID{}, nil
	}
	id, known := r.folders[folder]
	if known {
		return id, nil
	}
	id, err := r.findOrCreate(ctx, above, w.Parents)
	if r.folders[folder] = id; id.IsZero() {
		r.addDependencies(above)
	}
	return id, err
}

// addDependencies records that a file which is put later depends on whether these folders exist.
func (r *targetResolver) addDependencies(folder drive.Path) {
	for n := range folder {
		r.dependencies[folder[:n+1].String()] = true
	}
}

// findOrCreate returns the folder at a path; zero: it cannot be used for new files. Missing folders
// are created if parents is set and no earlier file depends on their absence.
func (r *targetResolver) findOrCreate(ctx context.Context, path drive.Path, parents bool) (drive.NodeID, error) {
	last, depth, err := r.tree.descend(ctx, r.tx, r.account, path)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return drive.NodeID{}, nil
	case err != nil:
		return drive.NodeID{}, err
	case !last[0].IsFolder(), depth < len(path) && (!parents || r.hasDependency(path)):
		return drive.NodeID{}, nil
	}
	folder := last[0]
	for _, missing := range path[depth:] {
		if folder, err = r.tree.addFolder(ctx, r.tx, r.account, folder.ID, missing); err != nil {
			return drive.NodeID{}, err
		}
	}
	return folder.ID, nil
}

// hasDependency reports whether an earlier file of the batch was resolved on the assumption that
// the folder, or one above it, does not exist.
func (r *targetResolver) hasDependency(folder drive.Path) bool {
	for n := range folder {
		if r.dependencies[folder[:n+1].String()] {
			return true
		}
	}
	return false
}

// clearTaken sets targets[i] to zero for those i in some, whose files go to the given folder, whose
// name a node in the folder already has. It writes nothing to the database.
func (r *targetResolver) clearTaken(ctx context.Context, folder drive.NodeID, some []int, targets []Target) error {
	of := make(map[drive.Name]int, len(some))
	names := make([]drive.Name, len(some))
	for k, i := range some {
		_, names[k], _ = targets[i].path.Split()
		of[names[k]] = i
	}
	marks, args := sqldb.ListArgs(names)
	rows, err := r.tx.Query(ctx, "SELECT slot FROM nodes WHERE parent_id = ? AND slot IN ("+marks+")", append([]any{folder}, args...)...)
	taken, err := sqldb.Scan(rows, err, func(name *drive.Name, scan func(...any) error) error { return scan(name) })
	if err != nil {
		return fmt.Errorf("look for %d names: %w", len(names), err)
	}
	for _, name := range taken {
		targets[of[name]] = Target{}
	}
	return nil
}

// clearAfterRename clears the targets of files that follow, in the same folder, a file that will be
// renamed: the new name may be one of theirs.
func clearAfterRename(files []BatchFile, targets []Target) {
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

// Put creates the files at targets that ResolveTargets returned in the same transaction, one per
// file. All targets must be set. The results are in the order of files; without files it returns
// nil. After an error tx must be rolled back.
func (n NewFileBatch) Put(ctx context.Context, tx *sqldb.Tx, targets []Target, files []File) ([]PutResult, error) {
	count := int64(len(files))
	if count == 0 {
		return nil, nil
	}
	if err := n.checkEnters(ctx, tx, targets, files); err != nil {
		return nil, err
	}
	last, err := n.Tree.allocSeqs(ctx, tx, n.Account, count, count)
	if err != nil {
		return nil, err
	}
	placed := make([]PutResult, count)
	nodes, versions := make([][]any, count), make([][]any, count)
	for i, f := range files {
		f.Parent = targets[i].Folder
		_, name, _ := targets[i].path.Split()
		node := fileNode(n.Tree.newNode(n.Account, f.Parent, name, TypeFile), f)
		node.Seq = last - count + 1 + int64(i)
		placed[i] = PutResult{Node: node, Created: true}
		nodes[i], versions[i] = nodeRow(node), versionRow(node, f.By)
	}
	if err := tx.InsertRows(ctx, insertNodes, nodes); err != nil {
		return nil, fmt.Errorf("insert %d nodes: %w", count, err)
	}
	if err := tx.InsertRows(ctx, insertVersions, versions); err != nil {
		return nil, fmt.Errorf("insert %d versions: %w", count, err)
	}
	for i, p := range placed {
		n.Tree.sums.nodeCreated(tx, p.Node)
		n.Tree.opt.OnEffect(tx, Effect{Node: p.Node, By: files[i].author()})
		if err := n.Tree.opt.OnPlaced(ctx, tx, p.Node); err != nil {
			return nil, err
		}
	}
	return placed, nil
}

// checkEnters calls Options.CheckAdd for each different pair of target folder and author;
// targets[i] belongs to files[i]. It returns the first error of CheckAdd, and writes nothing
// itself.
func (n NewFileBatch) checkEnters(ctx context.Context, tx *sqldb.Tx, targets []Target, files []File) error {
	type entry struct {
		folder drive.NodeID
		by     drive.Who
	}
	asked := map[entry]bool{}
	for i, f := range files {
		e := entry{targets[i].Folder, f.author()}
		if asked[e] {
			continue
		}
		asked[e] = true
		if err := n.Tree.opt.CheckAdd(ctx, tx, Folder{n.Account, e.folder}, e.by); err != nil {
			return err
		}
	}
	return nil
}
