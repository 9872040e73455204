package export

import (
	"bytes"
	"context"
	"maps"
	"path"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
)

// list finds out which entries a request means, and names the batch if the request does not.
func (o *orders) list(ctx context.Context, who drive.Who, in *Request) (*walk, error) {
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
	w := &walk{orders: o, account: who.Account, match: m, whole: in.Names == "" && in.Filter.takesAll()}
	if w.naming, err = parseNaming(in.Names, m.documents); err != nil {
		return nil, err
	}
	if err := w.begin(ctx, in); err != nil {
		return nil, err
	}
	switch {
	case len(in.Manifest) > 0 && in.Names != "":
		err = drive.Bad("names", drive.NotTogether, "with", "manifest")
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
	return w, err
}

// walk collects the entries of a request in the order in which they will lie in the zip.
type walk struct {
	*orders
	account drive.AccountID
	match   matcher
	list    []want
	text    int64 // of the list, bytes
	naming  naming
	whole   bool  // nothing is left out, and paths stay: folders with nothing in them are entries
	since   mark  // what has changed behind it is meant; zero: all
	end     *mark // where the tree was before the list was made; nil: no later export follows this one
}

// add refuses a list that grows beyond the limit.
func (w *walk) add(e want) error {
	if len(w.list) >= w.MaxList() {
		return drive.Fail(drive.TooLarge, "reason", "entries", "limit", w.MaxList(), "sent", len(w.list)+1)
	}
	w.text += int64(len(e.Doc) + len(e.Path) + len(e.Name))
	if w.text > maxListText {
		return drive.Fail(drive.TooLarge, "field", "path", "reason", "names", "limit", maxListText, "sent", w.text)
	}
	w.list = append(w.list, e)
	return nil
}

// liveFolder finds a folder that is not in the trash.
func (g *ground) liveFolder(ctx context.Context, account drive.AccountID, id drive.NodeID) (tree.Node, drive.Path, error) {
	n, err := g.opt.Tree.Find(ctx, g.opt.DB, account, id)
	if err != nil {
		return tree.Node{}, nil, err
	}
	at, live, err := g.opt.Tree.PathOf(ctx, g.opt.DB, id)
	switch {
	case err != nil:
	case !live:
		err = drive.Fail(drive.WrongState, "state", "trashed")
	case !n.IsFolder():
		err = drive.Bad("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", "file")
	}
	return n, at, err
}

func (w *walk) folder(ctx context.Context, in *Request) error {
	n, at, err := w.liveFolder(ctx, w.account, in.Folder)
	if err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = string(n.Name)
	}
	if w.match.documents {
		return w.documents(ctx, at)
	}
	return w.below(ctx, n, at.String(), "")
}

// emptyFolder adds an entry for a folder with nothing in it, which would be missing in what is
// unpacked. Without a name it is the directory of the zip.
func (w *walk) emptyFolder(n tree.Node, at, name string) error {
	return w.add(want{Node: n.ID, Path: at, Name: name + "/"})
}

func (w *walk) nodes(ctx context.Context, ids []drive.NodeID) error {
	seen := map[drive.NodeID]bool{}
	for page := range slices.Chunk(ids, folderPage) {
		nodes, err := w.opt.Tree.FindMany(ctx, w.opt.DB, w.account, page...)
		if err != nil {
			return err
		}
		spots, err := w.opt.Tree.SpotsOf(ctx, w.opt.DB, slices.Collect(maps.Values(nodes)))
		if err != nil {
			return err
		}
		for _, id := range page {
			n, there := nodes[id]
			switch {
			case !there:
				return drive.Fail(drive.NotFound)
			case seen[id]:
				continue
			}
			seen[id] = true
			if err := w.chosen(ctx, n, spots); err != nil {
				return err
			}
		}
	}
	return nil
}

// chosen adds a file that was chosen, or the files below a folder.
func (w *walk) chosen(ctx context.Context, n tree.Node, spots map[drive.NodeID]tree.Spot) error {
	spot, there := spots[n.Parent]
	if n.Trashed != 0 || !n.IsRoot() && (!there || spot.Trashed != 0) {
		return drive.Fail(drive.WrongState, "state", "trashed")
	}
	at := "/"
	if !n.IsRoot() {
		at = path.Join(spot.Path.String(), string(n.Name))
	}
	if n.IsFolder() {
		return w.below(ctx, n, at, string(n.Name))
	}
	return w.add(want{Node: n.ID, Path: at, Name: w.naming.ofFile("", n.Name, w.match.local(n.MTime)), size: n.Size})
}

// The walk through folders is by sets: one statement reads the children of many folders. All
// folders below the one that was asked for are in memory meanwhile, and of the files those that
// match.
const (
	folderPage = 1000    // children that one statement reads
	folderSet  = 200     // folders whose children it reads
	maxFolders = 100_000 // below one that is asked for
)

// below adds the files below a folder by name, those of folders where the folder stands. Of a
// request for the whole folder, it adds the empty folders, too.
func (w *walk) below(ctx context.Context, folder tree.Node, at, in string) error {
	kids, err := w.kids(ctx, folder)
	if err != nil {
		return err
	}
	if w.whole && len(kids[folder.ID]) == 0 {
		return w.emptyFolder(folder, at, in)
	}
	return w.lay(kids, folder.ID, at, in)
}

func (w *walk) lay(kids map[drive.NodeID][]tree.Node, folder drive.NodeID, at, in string) (err error) {
	for _, n := range kids[folder] {
		here, name := path.Join(at, string(n.Name)), path.Join(in, string(n.Name))
		switch {
		case !n.IsFolder():
			err = w.add(want{Node: n.ID, Path: here, Name: w.naming.ofFile(in, n.Name, w.match.local(n.MTime)), size: n.Size})
		case w.whole && len(kids[n.ID]) == 0:
			err = w.emptyFolder(n, here, name)
		default:
			err = w.lay(kids, n.ID, here, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kids reads what lies below a folder: folders, and files that match, by the folder that they lie
// in. Of a folder that is new since the last export, or lies at another place, everything is new.
func (w *walk) kids(ctx context.Context, top tree.Node) (map[drive.NodeID][]tree.Node, error) {
	kids := map[drive.NodeID][]tree.Node{}
	fresh := map[drive.NodeID]bool{top.ID: top.Seq > w.since.Seq}
	files, folders := len(w.list), 0
	for todo := []drive.NodeID{top.ID}; len(todo) > 0; {
		set := slices.Clone(todo[:min(folderSet, len(todo))])
		todo = todo[len(set):]
		err := w.childrenOf(ctx, set, w.match, func(n tree.Node) error {
			switch {
			case n.IsFolder():
				todo = append(todo, n.ID)
				fresh[n.ID] = fresh[n.Parent] || n.Seq > w.since.Seq
				if folders++; folders > maxFolders {
					return drive.Fail(drive.TooLarge, "reason", "folders", "limit", maxFolders, "sent", folders)
				}
			case !w.match.matches(n) || !fresh[n.Parent] && n.Seq <= w.since.Seq:
				return nil
			default:
				if files++; files > w.MaxList() {
					return drive.Fail(drive.TooLarge, "reason", "entries", "limit", w.MaxList(), "sent", files)
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
func (g *ground) childrenOf(ctx context.Context, set []drive.NodeID, match matcher, fn func(tree.Node) error) error {
	slices.SortFunc(set, func(a, b drive.NodeID) int { return bytes.Compare(a[:], b[:]) })
	ask := tree.Below{Folders: set, From: match.from, To: match.to, Limit: g.listPage}
	for {
		page, err := g.opt.Tree.ChildrenOf(ctx, g.opt.DB, ask)
		if err != nil {
			return err
		}
		for _, n := range page {
			if err := fn(n); err != nil {
				return err
			}
		}
		if len(page) < g.listPage {
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
