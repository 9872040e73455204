package export

import (
	"bytes"
	"context"
	"path"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// list finds out which entries a request means, and names the batch if the request does not.
func (e *Exports) list(ctx context.Context, who drive.Who, in *Request) ([]want, error) {
	given := 0
	for _, is := range []bool{len(in.Nodes) > 0, !in.Folder.IsZero(), len(in.Manifest) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, drive.Bad("nodes", drive.NotTogether, "with", "folder, manifest: exactly one of them")
	}
	m, err := in.Filter.compile()
	if err != nil {
		return nil, err
	}
	w := walk{Exports: e, account: who.Account, match: m}
	switch {
	case m.documents && in.Folder.IsZero():
		err = drive.Bad("documents", drive.NotTogether, "with", "nodes, manifest")
	case len(in.Manifest) > 0:
		err = w.manifest(ctx, in.Manifest)
	case !in.Folder.IsZero():
		err = w.folder(ctx, in)
	default:
		err = w.nodes(ctx, in.Nodes)
	}
	if in.Name == "" {
		in.Name = "export"
	}
	return w.list, err
}

// walk collects the entries of a request in the order in which they will lie in the zip.
type walk struct {
	*Exports
	account drive.AccountID
	match   matcher
	list    []want
	text    int64 // of the list,
	names   int64 // and of them the names
}

// add refuses a list that grows beyond the limit.
func (w *walk) add(e want) error {
	if len(w.list) >= w.opt.MaxEntries {
		return drive.Fail(drive.TooLarge, "reason", "entries", "limit", w.opt.MaxEntries, "sent", len(w.list)+1)
	}
	w.names += int64(len(e.Name))
	w.text += int64(len(e.Doc) + len(e.Path) + len(e.Name))
	switch {
	case w.names > maxListNames:
		return drive.Fail(drive.TooLarge, "field", "name", "reason", "names", "limit", maxListNames, "sent", w.names)
	case w.text > maxListText:
		return drive.Fail(drive.TooLarge, "field", "path", "reason", "names", "limit", maxListText, "sent", w.text)
	}
	w.list = append(w.list, e)
	return nil
}

func (w *walk) live(ctx context.Context, id drive.NodeID) (tree.Node, drive.Path, error) {
	n, err := w.opt.Tree.Find(ctx, w.opt.DB, w.account, id)
	if err != nil {
		return tree.Node{}, nil, err
	}
	at, live, err := w.opt.Tree.PathOf(ctx, w.opt.DB, id)
	if err == nil && !live {
		err = drive.Fail(drive.WrongState, "state", "trashed")
	}
	return n, at, err
}

func (w *walk) folder(ctx context.Context, in *Request) error {
	n, at, err := w.live(ctx, in.Folder)
	if err != nil {
		return err
	}
	if !n.IsFolder() {
		return drive.Bad("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", "file")
	}
	if in.Name == "" {
		in.Name = string(n.Name)
	}
	if w.match.documents {
		return w.documents(ctx, at)
	}
	return w.below(ctx, n, at.String(), "")
}

func (w *walk) nodes(ctx context.Context, ids []drive.NodeID) error {
	seen := map[drive.NodeID]bool{}
	for _, id := range ids {
		if seen[id] {
			continue
		}
		seen[id] = true
		n, at, err := w.live(ctx, id)
		if err != nil {
			return err
		}
		if n.IsFolder() {
			err = w.below(ctx, n, at.String(), string(n.Name))
		} else {
			err = w.add(want{Node: n.ID, Path: at.String(), Name: string(n.Name)})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// The walk through folders is by sets: one statement reads the children of many folders. All folders below the one that was asked for
// are in memory meanwhile, and of the files those that match.
const (
	folderPage = 1000    // children that one statement reads
	folderSet  = 200     // folders whose children it reads
	maxFolders = 100_000 // below one that is asked for
)

// below adds the files below a folder by name, those of folders where the folder stands.
func (w *walk) below(ctx context.Context, folder tree.Node, at, in string) error {
	kids, err := w.kids(ctx, folder.ID)
	if err != nil {
		return err
	}
	return w.lay(kids, folder.ID, at, in)
}

func (w *walk) lay(kids map[drive.NodeID][]tree.Node, folder drive.NodeID, at, in string) (err error) {
	for _, n := range kids[folder] {
		here, name := path.Join(at, string(n.Name)), path.Join(in, string(n.Name))
		if n.IsFolder() {
			err = w.lay(kids, n.ID, here, name)
		} else {
			err = w.add(want{Node: n.ID, Path: here, Name: name})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kids reads what lies below a folder: folders, and files that match, by the folder that they lie in.
func (w *walk) kids(ctx context.Context, top drive.NodeID) (map[drive.NodeID][]tree.Node, error) {
	kids := map[drive.NodeID][]tree.Node{}
	files, folders := len(w.list), 0
	for todo := []drive.NodeID{top}; len(todo) > 0; {
		set := slices.Clone(todo[:min(folderSet, len(todo))])
		todo = todo[len(set):]
		err := w.childrenOf(ctx, set, w.match, func(n tree.Node) error {
			switch {
			case n.IsFolder():
				todo = append(todo, n.ID)
				if folders++; folders > maxFolders {
					return drive.Fail(drive.TooLarge, "reason", "folders", "limit", maxFolders, "sent", folders)
				}
			case !w.match.matches(n):
				return nil
			default:
				if files++; files > w.opt.MaxEntries {
					return drive.Fail(drive.TooLarge, "reason", "entries", "limit", w.opt.MaxEntries, "sent", files)
				}
			}
			kids[n.Parent] = append(kids[n.Parent], n)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return kids, nil
}

// childrenOf calls fn for each child of the folders; of files for those that were changed when
// match says.
func (e *Exports) childrenOf(ctx context.Context, set []drive.NodeID, match matcher, fn func(tree.Node) error) error {
	slices.SortFunc(set, func(a, b drive.NodeID) int { return bytes.Compare(a[:], b[:]) })
	ask := tree.Below{Folders: set, From: match.from, To: match.to, Limit: e.listPage}
	for {
		page, err := e.opt.Tree.ChildrenOf(ctx, e.opt.DB, ask)
		if err != nil {
			return err
		}
		for _, n := range page {
			if err := fn(n); err != nil {
				return err
			}
		}
		if len(page) < e.listPage {
			return nil
		}
		ask.After = page[len(page)-1]
	}
}

func (w *walk) manifest(ctx context.Context, items []Item) error {
	for _, it := range items {
		entry, err := it.want()
		if err == nil {
			err = w.add(entry)
		}
		if err != nil {
			return err
		}
	}
	return w.nameNodes(ctx)
}

// nameNodes names the entries that have only an id after their files.
func (w *walk) nameNodes(ctx context.Context) error {
	for at := 0; at < len(w.list); at += folderPage {
		page := w.list[at:min(at+folderPage, len(w.list))]
		var ids []drive.NodeID
		for _, entry := range page {
			if entry.Name == "" && !entry.Node.IsZero() {
				ids = append(ids, entry.Node)
			}
		}
		nodes, err := w.opt.Tree.FindMany(ctx, w.opt.DB, w.account, ids...)
		if err != nil {
			return err
		}
		for i := range page {
			if n, ok := nodes[page[i].Node]; ok && page[i].Name == "" {
				page[i].Name = string(n.Name)
			}
		}
	}
	return nil
}
