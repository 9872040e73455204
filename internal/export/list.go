package export

import (
	"bytes"
	"context"
	"maps"
	"path"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
)

// buildList builds, in memory, the list of entries that a request asks for. It writes nothing to
// the database, and sets in.Name if the client gave none. It returns BadRequest for invalid or
// contradictory fields, NotFound for missing nodes, and TooLarge above the limits. An empty list is
// no error.
func (c *creator) buildList(ctx context.Context, who drive.Who, in *Request) (*listBuilder, error) {
	given := 0
	for _, is := range []bool{len(in.Nodes) > 0, !in.Folder.IsZero(), len(in.Manifest) > 0} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, drive.BadField("nodes", drive.NotTogether, "with", "folder, manifest: exactly one of them")
	}
	m, err := in.Filter.compile()
	if err != nil {
		return nil, err
	}
	w := &listBuilder{creator: c, account: who.Account, match: m, whole: in.Names == "" && in.Filter.matchesAll()}
	if w.naming, err = parseNaming(in.Names, m.documents); err != nil {
		return nil, err
	}
	if err := w.setMarks(ctx, in); err != nil {
		return nil, err
	}
	switch {
	case len(in.Manifest) > 0 && in.Names != "":
		err = drive.BadField("names", drive.NotTogether, "with", "manifest")
	case m.documents && in.Folder.IsZero():
		err = drive.BadField("documents", drive.NotTogether, "with", "nodes, manifest")
	case len(in.Manifest) > 0:
		err = w.addManifest(ctx, in.Manifest)
	case !in.Folder.IsZero():
		err = w.addFolder(ctx, in)
	default:
		err = w.addNodes(ctx, in.Nodes)
	}
	if in.Name == "" {
		in.Name = "export"
	}
	return w, err
}

// listBuilder builds the list of a request, in the order of the zip.
type listBuilder struct {
	*creator
	account   drive.AccountID
	match     matcher
	list      []listEntry
	textBytes int64 // bytes of the texts in list
	naming    naming
	whole     bool  // no filter and no naming pattern: empty folders become entries
	since     mark  // only later changes are selected; zero: all
	nextMark  *mark // position of the tree before the list was made; nil: later exports do not continue from this one
}

// add appends an entry, or returns TooLarge above the limits of entries or text.
func (lb *listBuilder) add(e listEntry) error {
	if len(lb.list) >= lb.MaxList() {
		return drive.Fail(drive.TooLarge, "reason", "entries", "limit", lb.MaxList(), "sent", len(lb.list)+1)
	}
	lb.textBytes += int64(len(e.Doc) + len(e.Path) + len(e.Name))
	if lb.textBytes > maxListText {
		return drive.Fail(drive.TooLarge, "field", "path", "reason", "names", "limit", maxListText, "sent", lb.textBytes)
	}
	lb.list = append(lb.list, e)
	return nil
}

// liveFolder returns a folder and its path. It returns NotFound for an unknown id, WrongState for a
// folder in the trash, and BadRequest, reason NotAllowed, for a file.
func (c *core) liveFolder(ctx context.Context, account drive.AccountID, id drive.NodeID) (tree.Node, drive.Path, error) {
	n, err := c.opt.Tree.Find(ctx, c.opt.DB, account, id)
	if err != nil {
		return tree.Node{}, nil, err
	}
	at, live, err := c.opt.Tree.PathOf(ctx, c.opt.DB, id)
	switch {
	case err != nil:
	case !live:
		err = drive.Fail(drive.WrongState, "state", "trashed")
	case !n.IsFolder():
		err = drive.BadField("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", "file")
	}
	return n, at, err
}

// addFolder adds the files, or the documents, below in.Folder, and sets in.Name to the folder's
// name if it is empty. It fails if the folder is missing, deleted or a file, and as add does.
func (lb *listBuilder) addFolder(ctx context.Context, in *Request) error {
	n, at, err := lb.liveFolder(ctx, lb.account, in.Folder)
	if err != nil {
		return err
	}
	if in.Name == "" {
		in.Name = string(n.Name)
	}
	if lb.match.documents {
		return lb.addDocuments(ctx, at)
	}
	return lb.addBelow(ctx, n, at.String(), "")
}

// addEmptyFolder adds an entry for an empty folder, so that unpacking creates it. An empty name is
// the top directory of the zip.
func (lb *listBuilder) addEmptyFolder(n tree.Node, at, name string) error {
	return lb.add(listEntry{Node: n.ID, Path: at, Name: name + "/"})
}

// addNodes adds the selected files and folders, each once. A missing node is NotFound.
func (lb *listBuilder) addNodes(ctx context.Context, ids []drive.NodeID) error {
	seen := map[drive.NodeID]bool{}
	for page := range slices.Chunk(ids, folderPage) {
		nodes, err := lb.opt.Tree.FindMany(ctx, lb.opt.DB, lb.account, page...)
		if err != nil {
			return err
		}
		spots, err := lb.opt.Tree.LocationsOf(ctx, lb.opt.DB, slices.Collect(maps.Values(nodes)))
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
			if err := lb.addSelected(ctx, n, spots); err != nil {
				return err
			}
		}
	}
	return nil
}

// addSelected adds a selected file, or the files below a selected folder. A node in the trash is
// WrongState.
func (lb *listBuilder) addSelected(ctx context.Context, n tree.Node, spots map[drive.NodeID]tree.Location) error {
	spot, there := spots[n.Parent]
	if n.Trashed != 0 || !n.IsRoot() && (!there || spot.Trashed != 0) {
		return drive.Fail(drive.WrongState, "state", "trashed")
	}
	at := "/"
	if !n.IsRoot() {
		at = path.Join(spot.Path.String(), string(n.Name))
	}
	if n.IsFolder() {
		return lb.addBelow(ctx, n, at, string(n.Name))
	}
	return lb.add(listEntry{Node: n.ID, Path: at, Name: lb.naming.fileName("", n.Name, lb.match.inZone(n.MTime)), size: n.Size})
}

// The listing of folders works in sets: one statement reads the children of many folders. All
// folders below the selected one, and the matching files, are in memory meanwhile.
const (
	folderPage = 1000    // children per statement
	folderSet  = 200     // folders per statement
	maxFolders = 100_000 // limit below one selected folder
)

// addBelow adds the files below a folder in name order, depth first, and the empty folders if the
// request has no filter.
func (lb *listBuilder) addBelow(ctx context.Context, folder tree.Node, at, in string) error {
	children, err := lb.children(ctx, folder)
	if err != nil {
		return err
	}
	if lb.whole && len(children[folder.ID]) == 0 {
		return lb.addEmptyFolder(folder, at, in)
	}
	return lb.addTree(children, folder.ID, at, in)
}

// addTree adds entries for what is below folder, recursively. at is the path of folder in the
// drive, in its path in the zip.
func (lb *listBuilder) addTree(children map[drive.NodeID][]tree.Node, folder drive.NodeID, at, in string) (err error) {
	for _, n := range children[folder] {
		here, name := path.Join(at, string(n.Name)), path.Join(in, string(n.Name))
		switch {
		case !n.IsFolder():
			err = lb.add(listEntry{Node: n.ID, Path: here, Name: lb.naming.fileName(in, n.Name, lb.match.inZone(n.MTime)), size: n.Size})
		case lb.whole && len(children[n.ID]) == 0:
			err = lb.addEmptyFolder(n, here, name)
		default:
			err = lb.addTree(children, n.ID, here, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// children returns all folders and the matching files below top, by parent folder. If only changes
// since the last export are wanted, it leaves out older files; everything below a folder that is
// new or was moved since counts as changed.
func (lb *listBuilder) children(ctx context.Context, top tree.Node) (map[drive.NodeID][]tree.Node, error) {
	children := map[drive.NodeID][]tree.Node{}
	fresh := map[drive.NodeID]bool{top.ID: top.Seq > lb.since.Seq}
	files, folders := len(lb.list), 0
	for todo := []drive.NodeID{top.ID}; len(todo) > 0; {
		set := slices.Clone(todo[:min(folderSet, len(todo))])
		todo = todo[len(set):]
		err := lb.childrenOf(ctx, set, lb.match, func(n tree.Node) error {
			switch {
			case n.IsFolder():
				todo = append(todo, n.ID)
				fresh[n.ID] = fresh[n.Parent] || n.Seq > lb.since.Seq
				if folders++; folders > maxFolders {
					return drive.Fail(drive.TooLarge, "reason", "folders", "limit", maxFolders, "sent", folders)
				}
			case !lb.match.matches(n) || !fresh[n.Parent] && n.Seq <= lb.since.Seq:
				return nil
			default:
				if files++; files > lb.MaxList() {
					return drive.Fail(drive.TooLarge, "reason", "entries", "limit", lb.MaxList(), "sent", files)
				}
			}
			children[n.Parent] = append(children[n.Parent], n)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return children, nil
}

// childrenOf calls fn for each child of the folders in set, which it sorts. Files outside of the
// modification time range of match are skipped; its other fields have no effect. It stops at the
// first error.
func (c *core) childrenOf(ctx context.Context, set []drive.NodeID, match matcher, fn func(tree.Node) error) error {
	slices.SortFunc(set, func(a, b drive.NodeID) int { return bytes.Compare(a[:], b[:]) })
	ask := tree.ChildQuery{Folders: set, From: match.from, To: match.to, Limit: c.listPage}
	for {
		page, err := c.opt.Tree.ChildrenOf(ctx, c.opt.DB, ask)
		if err != nil {
			return err
		}
		for _, n := range page {
			if err := fn(n); err != nil {
				return err
			}
		}
		if len(page) < c.listPage {
			return nil
		}
		ask.After = page[len(page)-1]
	}
}

// addManifest appends the entries of a manifest in its order, and gives names to those that name
// nodes. It returns the first error of an item, of a limit or of a lookup; the builder is then
// unusable.
func (lb *listBuilder) addManifest(ctx context.Context, items []Item) error {
	for _, it := range items {
		entry, err := it.listEntry()
		if err == nil {
			err = lb.add(entry)
		}
		if err != nil {
			return err
		}
	}
	return lb.nameNodes(ctx)
}

// nameNodes gives each entry with a node id but without a name the name of that file. Entries of
// missing nodes stay unnamed; listStore.split gives them numbered names.
func (lb *listBuilder) nameNodes(ctx context.Context) error {
	for at := 0; at < len(lb.list); at += folderPage {
		page := lb.list[at:min(at+folderPage, len(lb.list))]
		var ids []drive.NodeID
		for _, entry := range page {
			if entry.Name == "" && !entry.Node.IsZero() {
				ids = append(ids, entry.Node)
			}
		}
		nodes, err := lb.opt.Tree.FindMany(ctx, lb.opt.DB, lb.account, ids...)
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
