package export

import (
	"bytes"
	"context"
	"maps"
	"path"
	"slices"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/tree"
	"smartdrive/internal/export/zipline"
)

// plan is the list of a zip that is sent at once, while it is made. It keeps little of each node
// and takes memory from the grant as it grows.
type plan struct {
	*sender
	account drive.AccountID
	grant   *zipline.Grant

	need    drive.ByteSize // memory so far
	names   drive.ByteSize // of all entries
	kids    map[drive.NodeID][]kid
	files   int
	folders int

	entries []zipline.Entry // without their names, and without their CRC-32 until fill
	wanted  []string        // the names that they should have
	report  bytes.Buffer    // of what cannot be sent
	newest  drive.Time      // of all entries
}

// kid is what a plan keeps of a node: 90 bytes beside its name.
type kid struct {
	id     drive.NodeID
	name   drive.Name
	folder bool
	size   drive.ByteSize
	mtime  drive.Time
	blob   drive.BlobID
}

func kidOf(n tree.Node) kid { return kid{n.ID, n.Name, n.IsFolder(), n.Size, n.MTime, n.Blob} }

// read finds the files of a request, in the order in which they will lie in the zip, and names the
// zip if the request does not.
func (p *plan) read(ctx context.Context, in *Request) error {
	if (len(in.Nodes) > 0) == !in.Folder.IsZero() {
		return drive.Bad("nodes", drive.NotTogether, "with", "folder: exactly one of them")
	}
	if !in.Folder.IsZero() {
		return p.folder(ctx, in)
	}
	if in.Name == "" {
		in.Name = "export"
	}
	tops, err := p.live(ctx, in.Nodes)
	if err != nil {
		return err
	}
	if err := p.below(ctx, tops); err != nil {
		return err
	}
	return p.lay(tops, in.Name)
}

func (p *plan) folder(ctx context.Context, in *Request) error {
	tops, err := p.live(ctx, []drive.NodeID{in.Folder})
	if err != nil {
		return err
	}
	top := tops[0]
	if !top.folder {
		return drive.Bad("folder", drive.NotAllowed, "allowed", []string{"folder"}, "sent", "file")
	}
	if in.Name == "" {
		in.Name = string(top.name)
	}
	if in.Name == "" {
		in.Name = "export" // the root has no name
	}
	if err := p.below(ctx, tops); err != nil {
		return err
	}
	if len(p.kids[top.id]) == 0 {
		return p.add(top, in.Name)
	}
	return p.lay(p.kids[top.id], in.Name)
}

// live finds nodes that can be seen, each once. One that is not there is NotFound; one that is in
// the trash, or in a folder that is, WrongState.
func (p *plan) live(ctx context.Context, ids []drive.NodeID) (tops []kid, err error) {
	seen := map[drive.NodeID]bool{}
	alive := living{}
	for page := range slices.Chunk(ids, folderPage) {
		nodes, err := p.opt.Tree.FindMany(ctx, p.opt.DB, p.account, page...)
		if err != nil {
			return nil, err
		}
		if err := alive.learn(ctx, p.ground, slices.Collect(maps.Values(nodes))); err != nil {
			return nil, err
		}
		for _, id := range page {
			n, there := nodes[id]
			switch {
			case !there:
				return nil, drive.Fail(drive.NotFound)
			case !alive.has(n):
				return nil, drive.Fail(drive.WrongState, "state", "trashed")
			case seen[id]:
				continue
			}
			seen[id] = true
			tops = append(tops, kidOf(n))
			if err := p.take(ctx, memoryOfFile(n.Name)); err != nil {
				return nil, err
			}
		}
	}
	return tops, nil
}

// below reads what lies below those that are folders.
func (p *plan) below(ctx context.Context, tops []kid) error {
	var todo []drive.NodeID
	for _, k := range tops {
		if k.folder {
			todo = append(todo, k.id)
		} else if err := p.count(false); err != nil {
			return err
		}
	}
	p.kids = map[drive.NodeID][]kid{}
	for len(todo) > 0 {
		set := slices.Clone(todo[:min(folderSet, len(todo))])
		todo = todo[len(set):]
		err := p.childrenOf(ctx, set, matcher{}, func(n tree.Node) error {
			if n.IsFolder() {
				todo = append(todo, n.ID)
			}
			p.kids[n.Parent] = append(p.kids[n.Parent], kidOf(n))
			if err := p.count(n.IsFolder()); err != nil {
				return err
			}
			return p.take(ctx, memoryOfFile(n.Name))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// count refuses more than one zip may hold.
func (p *plan) count(folder bool) error {
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

// planMemory is what a file takes while its zip is laid out, in bytes beside its names: the kid,
// and the entry, and its place among the names that are taken.
const planMemory = 400

func memoryOfFile(name drive.Name) drive.ByteSize { return planMemory + drive.ByteSize(len(name)) }

func (p *plan) take(ctx context.Context, n drive.ByteSize) error {
	p.need += n
	if p.need+directWindow <= p.grant.Bytes {
		return nil
	}
	return p.grant.Grow(ctx, max(directStep, p.need+directWindow-p.grant.Bytes))
}

// lay adds the files among kids and below them, those of folders where the folder stands. A folder
// with nothing in it has an entry of its own: it would be missing in what is unpacked.
func (p *plan) lay(kids []kid, in string) error {
	for _, k := range kids {
		name := path.Join(in, string(k.name))
		if k.folder {
			if below := p.kids[k.id]; len(below) > 0 {
				delete(p.kids, k.id) // it is not needed any more
				if err := p.lay(below, name); err != nil {
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

// add adds a file, or a folder with nothing in it.
func (p *plan) add(k kid, name string) error {
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

// fill looks up what only the contents say, and takes out those that cannot be sent.
func (p *plan) fill(ctx context.Context) error {
	p.kids = nil
	kept := 0
	for at := 0; at < len(p.entries); at += folderPage {
		end := min(at+folderPage, len(p.entries))
		ids, err := blobsIn(p.entries[at:end])
		if err != nil {
			return err
		}
		if err := p.take(ctx, sumOf(p.wanted[at:end])*namesAtOnce); err != nil {
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
				if !stored { // it was replaced and purged between two reads
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

// namesAtOnce is how often a name is in memory while a zip is laid out: as it is wanted, and among
// those that are taken.
const namesAtOnce = 2

func sumOf(names []string) (n drive.ByteSize) {
	for _, name := range names {
		n += drive.ByteSize(len(name))
	}
	return n
}

// blobsIn returns the content of each entry. An empty file has one, too; a folder has none.
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
