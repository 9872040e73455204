package tree_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
)

// model is an independent implementation of a tree in a map.
type model struct {
	root  drive.NodeID
	nodes map[drive.NodeID]*item
	gone  map[drive.NodeID]bool
}

type item struct {
	parent   drive.NodeID
	name     string
	folder   bool
	trashed  bool
	versions int
}

func (m *model) live(id drive.NodeID) bool {
	for ; id != m.root; id = m.nodes[id].parent {
		if m.nodes[id].trashed {
			return false
		}
	}
	return true
}

func (m *model) path(id drive.NodeID) string {
	if id == m.root {
		return ""
	}
	return m.path(m.nodes[id].parent) + "/" + m.nodes[id].name
}

func (m *model) within(id, top drive.NodeID) bool {
	for ; id != m.root; id = m.nodes[id].parent {
		if id == top {
			return true
		}
	}
	return id == top
}

func (m *model) child(parent drive.NodeID, name string) (drive.NodeID, bool) {
	for id, n := range m.nodes {
		if id != m.root && n.parent == parent && n.name == name && !n.trashed {
			return id, true
		}
	}
	return drive.NodeID{}, false
}

func (m *model) goodParent(id drive.NodeID) bool {
	n, ok := m.nodes[id]
	return ok && n.folder && m.live(id)
}

// purge deletes a node and its descendants and moves separately trashed ones below the root.
func (m *model) purge(id drive.NodeID) {
	for kid, n := range m.nodes {
		if kid != m.root && n.parent == id {
			if n.trashed {
				n.parent = m.root
			} else {
				m.purge(kid)
			}
		}
	}
	delete(m.nodes, id)
	m.gone[id] = true
}

// paths lists the live nodes.
func (m *model) paths() []string {
	var all []string
	for id, n := range m.nodes {
		if m.live(id) && id != m.root {
			all = append(all, fmt.Sprintf("%s folder=%v", m.path(id), n.folder))
		}
	}
	slices.Sort(all)
	return all
}

func TestTreeAgainstModel(t *testing.T) {
	t.Parallel()
	db := sqldbtest.Open(t)
	rapid.Check(t, func(rt *rapid.T) {
		g := newFixtureIn(rt, db, tree.Options{KeepVersions: 2, KeepVersionsFor: time.Hour})
		w := &driver{
			fixture: g, rt: rt, replica: map[drive.NodeID]tree.Node{}, marks: map[drive.NodeID]map[[2]int64]string{},
			m: model{root: g.root, nodes: map[drive.NodeID]*item{g.root: {folder: true}}, gone: map[drive.NodeID]bool{}},
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": w.put, "mkdir": w.mkdir, "edit": w.edit, "trash": w.trash, "restore": w.restore, "purge": w.purge,
			"forget sums": w.dropSums, "sum up": w.computeOneSum,
			"wait": func(*rapid.T) { g.now = g.now.Add(20 * time.Minute) },
			"":     w.check,
		})
	})
}

// driver applies the same operations to the tree and to the model.
type driver struct {
	*fixture
	rt      *rapid.T
	m       model
	seq     int64
	replica map[drive.NodeID]tree.Node
	feed    tree.Position
	marks   map[drive.NodeID]map[[2]int64]string // content of each folder by mark
}

func (w *driver) pickNode(t *rapid.T, label string) drive.NodeID {
	ids := slices.SortedFunc(maps.Keys(w.m.nodes), func(a, b drive.NodeID) int { return cmp.Compare(a.String(), b.String()) })
	return ids[rapid.IntRange(0, len(ids)-1).Draw(t, label)]
}

var (
	names     = rapid.SampledFrom([]string{"a", "b", "c"})
	conflicts = rapid.SampledFrom([]drive.Conflict{drive.ConflictFail, drive.ConflictRename, drive.ConflictReplace})
)

// freeName returns the name that ConflictRename picks while there are few: with the first free
// number.
func (w *driver) freeName(parent drive.NodeID, name string) string {
	for k := 2; ; k++ {
		try := fmt.Sprintf("%s (%d)", name, k)
		if _, taken := w.m.child(parent, try); !taken {
			return try
		}
	}
}

func (w *driver) put(t *rapid.T) {
	parent, name, conflict := w.pickNode(t, "parent"), names.Draw(t, "name"), conflicts.Draw(t, "conflict")
	p := tree.Place{Parent: parent, Name: drive.Name(name), Conflict: conflict}
	there, ok, err := w.tree.Child(t.Context(), w.db, w.account, parent, p.Name)
	if err != nil {
		t.Fatal(err)
	}
	if ok {
		p.Base = there.Version
	}
	placed, err := w.tryPut(t, p, drive.ByteSize(rapid.IntRange(0, 9).Draw(t, "size")))
	id, taken := w.m.child(parent, name)
	switch {
	case !w.m.goodParent(parent):
		expect(t, err, drive.ParentGone)
	case taken && conflict == drive.ConflictReplace && !w.m.nodes[id].folder:
		expect(t, err, 0)
		w.m.nodes[id].versions += 1 - len(placed.Dropped)
		if placed.Node.ID != id || placed.Created {
			t.Fatalf("replaced %v instead of %v", placed.Node.ID, id)
		}
	case taken && conflict != drive.ConflictRename:
		expect(t, err, drive.NameTaken)
	default:
		expect(t, err, 0)
		if taken {
			name = w.freeName(parent, name)
		}
		w.m.nodes[placed.Node.ID] = &item{parent: parent, name: name, versions: 1}
	}
}

func (w *driver) mkdir(t *rapid.T) {
	parent, name := w.pickNode(t, "parent"), names.Draw(t, "name")
	var n tree.Node
	err := w.try(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
		n, err = w.tree.CreateFolder(ctx, tx, w.account, tree.Place{Parent: parent, Name: drive.Name(name)})
		return err
	})
	_, taken := w.m.child(parent, name)
	switch {
	case !w.m.goodParent(parent):
		expect(t, err, drive.ParentGone)
	case taken:
		expect(t, err, drive.NameTaken)
	default:
		expect(t, err, 0)
		w.m.nodes[n.ID] = &item{parent: parent, name: name, folder: true}
	}
}

func (w *driver) edit(t *rapid.T) {
	id, parent, name, conflict := w.pickNode(t, "node"), w.pickNode(t, "parent"), names.Draw(t, "name"), conflicts.Draw(t, "conflict")
	_, err := w.fixture.edit(t, id, tree.Edit{Parent: parent, Name: drive.Name(name), Conflict: conflict})
	n := w.m.nodes[id]
	there, taken := w.m.child(parent, name)
	switch {
	case id == w.root:
		expect(t, err, drive.BadRequest)
	case !w.m.live(id):
		expect(t, err, drive.WrongState)
	case n.parent == parent && n.name == name:
		expect(t, err, 0)
	case n.folder && w.m.within(parent, id):
		expect(t, err, drive.Cycle)
	case !w.m.goodParent(parent):
		expect(t, err, drive.ParentGone)
	case taken && conflict == drive.ConflictFail:
		expect(t, err, drive.NameTaken)
	case taken && conflict == drive.ConflictReplace && w.m.within(id, there):
		expect(t, err, drive.Cycle)
	default:
		expect(t, err, 0)
		if taken && conflict == drive.ConflictReplace {
			w.m.nodes[there].trashed = true
		} else if taken {
			name = w.freeName(parent, name)
		}
		n.parent, n.name = parent, name
	}
}

func (w *driver) trash(t *rapid.T) {
	id := w.pickNode(t, "node")
	_, err := w.fixture.trash(t, id)
	if id == w.root {
		expect(t, err, drive.BadRequest)
		return
	}
	expect(t, err, 0)
	w.m.nodes[id].trashed = w.m.nodes[id].trashed || w.m.live(id)
}

func (w *driver) restore(t *rapid.T) {
	id := w.pickNode(t, "node")
	_, err := w.fixture.restore(t, id, tree.Restore{})
	if id == w.root {
		expect(t, err, drive.BadRequest)
		return
	}
	expect(t, err, 0)
	if w.m.live(id) {
		return
	}
	n := w.m.nodes[id]
	home := n.parent
	if !w.m.live(home) {
		home = w.root
	}
	if _, taken := w.m.child(home, n.name); taken {
		n.name = w.freeName(home, n.name)
	}
	n.parent, n.trashed = home, false
}

func (w *driver) purge(t *rapid.T) {
	id := w.pickNode(t, "node")
	dropped, err := w.fixture.purge(t, id, rapid.IntRange(1, 5).Draw(t, "limit"))
	if id == w.root {
		expect(t, err, drive.BadRequest)
		return
	}
	expect(t, err, 0)
	before := w.m.versions()
	w.m.purge(id)
	if got, want := len(dropped), before-w.m.versions(); got != want {
		t.Fatalf("%d versions were dropped, want %d", got, want)
	}
}

func (m *model) versions() (n int) {
	for _, i := range m.nodes {
		n += i.versions
	}
	return n
}

// check compares the tree, and a replica built from the feed alone, with the model.
func (w *driver) check(t *rapid.T) {
	var seq int64
	var nodes, versions, old, files int
	if err := w.db.QueryRow(t.Context(), `SELECT seq, node_count, (SELECT COUNT(*) FROM versions v WHERE v.account_id = t.account_id),
		COALESCE((SELECT n FROM old_versions o WHERE o.account_id = t.account_id), 0),
		(SELECT COUNT(*) FROM nodes n WHERE n.account_id = t.account_id AND n.type = 'file')
		FROM trees t WHERE account_id = ?`, w.account).Scan(&seq, &nodes, &versions, &old, &files); err != nil {
		t.Fatal(err)
	}
	if seq < w.seq || nodes != len(w.m.nodes)-1 || versions != w.m.versions() {
		t.Fatalf("seq %d after %d; %d nodes, want %d; %d versions, want %d", seq, w.seq, nodes, len(w.m.nodes)-1, versions, w.m.versions())
	}
	if old != versions-files {
		t.Fatalf("N3: %d old versions are counted, there are %d of %d files", old, versions, files)
	}
	w.seq = seq
	if forgotten := w.countWithoutDue(t); forgotten != [3]int{} {
		t.Fatalf("not due, or too late: %v of what is trashed, tombstones, versions", forgotten)
	}
	w.checkSums(t)
	want := w.m.paths()
	if diff := gocmp.Diff(want, w.list(t, w.root, "")); diff != "" {
		t.Fatalf("the tree differs from the model (-want +got):\n%s", diff)
	}
	w.applyFeed(t, rapid.IntRange(1, 7).Draw(t, "page"))
	if diff := gocmp.Diff(want, w.replicaPaths(t)); diff != "" {
		t.Fatalf("a replica of the feed differs from the model (-want +got):\n%s", diff)
	}
}

func (w *driver) list(t *rapid.T, folder drive.NodeID, path string) (all []string) {
	page, err := w.tree.Children(t.Context(), w.db, folder, tree.List{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range page.Items {
		all = append(all, fmt.Sprintf("%s/%s folder=%v", path, n.Name, n.IsFolder()))
		all = append(all, w.list(t, n.ID, path+"/"+string(n.Name))...)
	}
	slices.Sort(all)
	return all
}

func (w *driver) applyFeed(t *rapid.T, limit int) {
	for more := true; more; {
		f, err := w.tree.Changes(t.Context(), w.db, w.account, w.feed, limit)
		if err != nil {
			t.Fatal(err)
		}
		last := w.feed.Seq
		for _, c := range f.Items {
			if c.Seq <= last {
				t.Fatalf("seq %d comes after %d", c.Seq, last)
			}
			last = c.Seq
			if c.Deleted.IsZero() {
				w.replica[c.Node.ID] = c.Node
			} else {
				delete(w.replica, c.Deleted)
			}
		}
		w.feed, more = f.Next, f.More
	}
}

func (w *driver) replicaPaths(t *rapid.T) []string {
	m := model{root: w.root, nodes: map[drive.NodeID]*item{}}
	for id, n := range w.replica {
		m.nodes[id] = &item{parent: n.Parent, name: string(n.Name), folder: n.IsFolder(), trashed: n.Trashed != 0}
		if _, ok := w.replica[n.Parent]; !ok && id != w.root {
			t.Fatalf("the replica has no parent for %s", n.Name)
		}
	}
	return m.paths()
}

func expect(t *rapid.T, err error, kind drive.Kind) {
	t.Helper()
	if kind == 0 && err != nil || kind != 0 && !drive.IsKind(err, kind) {
		t.Fatalf("got %v, want %v", err, kind)
	}
}
