package export

import (
	"bytes"
	"context"
	"maps"
	"path"
	"slices"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/export/zipline"
)

// plan builds the entries of a zip that is laid out while the client waits. It keeps little data
// per node and grows the memory grant with the number of nodes.
type plan struct {
	*sender
	account drive.AccountID
	grant   *zipline.Grant

	need     drive.ByteSize // bytes of memory needed so far
	names    drive.ByteSize // bytes of the names of all entries
	children map[drive.NodeID][]planNode
	files    int
	folders  int

	entries []zipline.Entry // without names, and without CRC-32 before fill
	wanted  []string        // desired names of entries
	report  bytes.Buffer    // lines of err.txt
	newest  drive.Time      // latest modification time of all entries
}

// planNode is the data kept for a node: 90 bytes beside its name.
type planNode struct {
	id     drive.NodeID
	name   drive.Name
	folder bool
	size   drive.ByteSize
	mtime  drive.Time
	blob   drive.BlobID
}

// planNodeOf returns the data that a plan keeps of n.
func planNodeOf(n tree.Node) planNode {
	return planNode{n.ID, n.Name, n.IsFolder(), n.Size, n.MTime, n.Blob}
}

// read finds the files that a request selects, in the order of the zip, and adds them to p. It sets
// in.Name if it is empty. Errors: BadRequest unless exactly one of nodes and folder is given,
// NotFound, TooLarge, and the error of the memory.
func (p *plan) read(ctx context.Context, in *Request) error {
	if (len(in.Nodes) > 0) == !in.Folder.IsZero() {
		return drive.BadField("nodes", drive.NotTogether, "with", "folder: exactly one of them")
	}
	if !in.Folder.IsZero() {
		return p.readFolder(ctx, in)
	}
	if in.Name == "" {
		in.Name = "export"
	}
	tops, err := p.visibleNodes(ctx, in.Nodes)
	if err != nil {
		return err
	}
	if err := p.readBelow(ctx, tops); err != nil {
		return err
	}
	return p.addTree(tops, in.Name)
}

// readFolder adds the files below in.Folder to p and sets in.Name if it is empty. It returns
// BadRequest for a file instead of a folder.
func (p *plan) readFolder(ctx context.Context, in *Request) error {
	tops, err := p.visibleNodes(ctx, []drive.NodeID{in.Folder})
	if err != nil {
		return err
	}
	top := tops[0]
	if !top.folder {
		return drive.BadField("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", "file")
	}
	if in.Name == "" {
		in.Name = string(top.name)
	}
	if in.Name == "" {
		in.Name = "export" // the root folder has no name
	}
	if err := p.readBelow(ctx, tops); err != nil {
		return err
	}
	if len(p.children[top.id]) == 0 {
		return p.add(top, in.Name)
	}
	return p.addTree(p.children[top.id], in.Name)
}

// visibleNodes finds nodes by id and drops duplicates. It reserves memory for them. A missing node
// is NotFound; a node in the trash, or below a folder in the trash, is WrongState.
func (p *plan) visibleNodes(ctx context.Context, ids []drive.NodeID) (tops []planNode, err error) {
	seen := map[drive.NodeID]bool{}
	alive := visibility{}
	for page := range slices.Chunk(ids, folderPage) {
		nodes, err := p.opt.Tree.FindMany(ctx, p.opt.DB, p.account, page...)
		if err != nil {
			return nil, err
		}
		if err := alive.load(ctx, p.core, slices.Collect(maps.Values(nodes))); err != nil {
			return nil, err
		}
		for _, id := range page {
			n, there := nodes[id]
			switch {
			case !there:
				return nil, drive.Fail(drive.NotFound)
			case !alive.visible(n):
				return nil, drive.Fail(drive.WrongState, "state", "trashed")
			case seen[id]:
				continue
			}
			seen[id] = true
			tops = append(tops, planNodeOf(n))
			if err := p.reserve(ctx, memoryOfFile(n.Name)); err != nil {
				return nil, err
			}
		}
	}
	return tops, nil
}

// readBelow reads what is below the folders among tops, folder by folder, into p.children, which
// maps each folder to its nodes. It also counts tops and reserves memory. It returns TooLarge above
// the limits, and the errors of queries and of the memory.
func (p *plan) readBelow(ctx context.Context, tops []planNode) error {
	var todo []drive.NodeID
	for _, k := range tops {
		if k.folder {
			todo = append(todo, k.id)
		} else if err := p.countNode(false); err != nil {
			return err
		}
	}
	p.children = map[drive.NodeID][]planNode{}
	for len(todo) > 0 {
		set := slices.Clone(todo[:min(folderSet, len(todo))])
		todo = todo[len(set):]
		err := p.childrenOf(ctx, set, matcher{}, func(n tree.Node) error {
			if n.IsFolder() {
				todo = append(todo, n.ID)
			}
			p.children[n.Parent] = append(p.children[n.Parent], planNodeOf(n))
			if err := p.countNode(n.IsFolder()); err != nil {
				return err
			}
			return p.reserve(ctx, memoryOfFile(n.Name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// countNode adds a node to the number of files or folders, and returns TooLarge once either exceeds
// directMost.
func (p *plan) countNode(folder bool) error {
	if folder {
		p.folders++
	} else {
		p.files++
	}
	if most := max(p.files, p.folders); most > p.directMost {
		return drive.Fail(drive.TooLarge, "reason", "files", "limit", p.directMost, "sent", most)
	}
	return nil
}

// planMemory is the memory per file in bytes during layout, beside its names: the planNode, the
// entry, and the slot in the set of used names.
const planMemory = 400

// memoryOfFile returns the memory that a node needs during layout.
func memoryOfFile(name drive.Name) drive.ByteSize { return planMemory + drive.ByteSize(len(name)) }

// reserve accounts for n further bytes of memory, and grows the grant if that is needed. It fails
// as Grow does, such as when the grant is evicted.
func (p *plan) reserve(ctx context.Context, n drive.ByteSize) error {
	p.need += n
	if p.need+directWindow <= p.grant.Bytes {
		return nil
	}
	return p.grant.Grow(ctx, max(directStep, p.need+directWindow-p.grant.Bytes))
}

// addTree adds the files among children and below them, depth first. in is their path in the zip.
// An empty folder gets an entry of its own.
func (p *plan) addTree(children []planNode, in string) error {
	for _, k := range children {
		name := path.Join(in, string(k.name))
		if k.folder {
			if below := p.children[k.id]; len(below) > 0 {
				delete(p.children, k.id) // frees memory
				if err := p.addTree(below, name); err != nil {
					return err
				}
				continue
			}
		}
		if err := p.add(k, name); err != nil {
			return err
		}
	}
	return nil
}

// add appends an entry and its wanted name for a file, or for a folder, which k is only if it is
// empty. It returns TooLarge if the names of the plan exceed directNames bytes.
func (p *plan) add(k planNode, name string) error {
	e := zipline.Entry{Size: k.size, Time: k.mtime, Blob: k.blob.String()}
	if k.folder {
		name += "/"
		e = zipline.Folder(name, k.mtime)
	}
	if p.names += drive.ByteSize(len(name)); p.names > directNames {
		return drive.Fail(drive.TooLarge, "field", "name", "reason", "names", "limit", directNames, "sent", p.names)
	}
	p.newest = max(p.newest, k.mtime)
	p.wanted = append(p.wanted, name)
	p.entries = append(p.entries, e)
	return nil
}

// fillContents sets the size and CRC-32 of each entry from its content, and frees p.children.
// Entries with damaged or missing content are removed and reported in err.txt.
func (p *plan) fillContents(ctx context.Context) error {
	p.children = nil
	kept := 0
	for at := 0; at < len(p.entries); at += folderPage {
		end := min(at+folderPage, len(p.entries))
		ids, err := blobsIn(p.entries[at:end])
		if err != nil {
			return err
		}
		if err := p.reserve(ctx, totalLen(p.wanted[at:end])*nameCopies); err != nil {
			return err
		}
		found, err := p.opt.Content.FindMany(ctx, p.opt.DB, ids...)
		if err != nil {
			return err
		}
		for i := at; i < end; i++ {
			if p.entries[i].Blob == "" {
				p.entries[kept], p.wanted[kept] = p.entries[i], p.wanted[i]
				kept++
				continue
			}
			b, stored := found[ids[i-at]]
			if !stored || b.Damaged != 0 {
				reason := reasonDamaged
				if !stored { // replaced and purged between the two reads
					reason = reasonMissing
				}
				writeError(&p.report, sealRow{path: p.wanted[i], reason: reason})
				continue
			}
			e := p.entries[i]
			e.Size, e.CRC32 = b.Size, b.CRC32
			p.entries[kept], p.wanted[kept] = e, p.wanted[i]
			kept++
		}
	}
	p.entries, p.wanted = p.entries[:kept], p.wanted[:kept]
	return nil
}

// nameCopies is the number of copies of a name in memory during layout: the desired name and the
// set of used names.
const nameCopies = 2

// totalLen returns the total length of names.
func totalLen(names []string) (n drive.ByteSize) {
	for _, name := range names {
		n += drive.ByteSize(len(name))
	}
	return n
}

// blobsIn returns the content id of each entry, in order; the zero id for a folder. It returns
// Internal if a Blob is not an id.
func blobsIn(entries []zipline.Entry) ([]drive.BlobID, error) {
	ids := make([]drive.BlobID, len(entries))
	for i, e := range entries {
		if e.Blob == "" {
			continue
		}
		var err error
		if ids[i], err = drive.ParseID[drive.BlobID](e.Blob); err != nil {
			return nil, drive.Wrap(err, drive.Internal)
		}
	}
	return ids, nil
}
