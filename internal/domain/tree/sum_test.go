package tree_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// folderTotals is a folder as computed by walking the node rows.
type folderTotals struct {
	sum  tree.Sum
	seen string // all live descendants with their revisions
}

// walkSums computes the sums of all folders without folder_sums.
func (f *fixture) walkSums(t tb) map[drive.NodeID]folderTotals {
	t.Helper()
	type row struct {
		id, parent drive.NodeID
		folder     bool
		rev        int64
		trashed    drive.Time
		size       drive.ByteSize
	}
	rows, err := f.db.Query(t.Context(), `SELECT n.id, n.parent_id, n.type = 'folder', n.rev, n.trashed_at, COALESCE(v.size, 0)
		FROM nodes n LEFT JOIN versions v ON v.id = n.version_id WHERE n.account_id = ?`, f.account)
	all, err := sqldb.Scan(rows, err, func(r *row, scan func(...any) error) error {
		return scan(&r.id, &r.parent, &r.folder, &r.rev, &r.trashed, &r.size)
	})
	if err != nil {
		t.Fatal(err)
	}
	var walk func(r row) folderTotals
	walk = func(r row) (b folderTotals) {
		var seen []string
		for _, kid := range all {
			if kid.parent != r.id || kid.trashed != 0 {
				continue
			}
			if !kid.folder {
				b.sum.Files, b.sum.Size = b.sum.Files+1, b.sum.Size+kid.size
				seen = append(seen, fmt.Sprint(kid.id, kid.rev))
				continue
			}
			in := walk(kid)
			b.sum.Files, b.sum.Folders, b.sum.Size = b.sum.Files+in.sum.Files, b.sum.Folders+in.sum.Folders+1, b.sum.Size+in.sum.Size
			seen = append(seen, in.seen)
		}
		slices.Sort(seen)
		b.seen = fmt.Sprint(r.id, r.rev, "(", strings.Join(seen, " "), ")")
		return b
	}
	found := map[drive.NodeID]folderTotals{}
	for _, r := range all {
		if r.folder {
			found[r.id] = walk(r)
		}
	}
	return found
}

// checkSums compares all stored sums with a walk, and marks with earlier ones: different content
// must have a different mark.
func (w *driver) checkSums(t *rapid.T) {
	walked := w.walkSums(t)
	ids := make([]drive.NodeID, 0, len(walked))
	for id := range walked {
		ids = append(ids, id)
	}
	sums, err := tree.Sums(t.Context(), w.db, ids)
	if err != nil || len(sums) != len(ids) {
		t.Fatalf("%d sums of %d folders: %v", len(sums), len(ids), err)
	}
	for id, b := range walked {
		s := sums[id]
		if !s.Known {
			continue
		}
		if s.Sum != b.sum {
			t.Fatalf("folder %v (trashed: %v): the row says %+v, there is %+v", id, w.m.nodes[id].trashed, s.Sum, b.sum)
		}
		if missing, err := tree.FoldersWithoutSum(t.Context(), w.db, []drive.NodeID{id}, 1); err != nil || len(missing) > 0 {
			t.Fatalf("folder %v was added up, and %v in it were not (%v)", id, missing, err)
		}
		mark := [2]int64{s.Seq, s.ChangeTag().Nodes}
		if was, known := w.marks[id][mark]; known && was != b.seen {
			t.Fatalf("folder %v has the mark %v for %s and for %s", id, mark, was, b.seen)
		}
		if w.marks[id] == nil {
			w.marks[id] = map[[2]int64]string{}
		}
		w.marks[id][mark] = b.seen
	}
}

// dropSums deletes the rows of a folder and of those above it, as before they were computed.
func (w *driver) dropSums(t *rapid.T) {
	w.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM folder_sums WHERE folder_id IN (SELECT id FROM nodes WHERE account_id = ?)`, w.account)
		return err
	})
}

// computeOneSum computes the sum of a folder and of those below.
func (w *driver) computeOneSum(t *rapid.T) {
	id := w.pickNode(t, "folder")
	w.computeSums(t, id)
	if sums, err := tree.Sums(t.Context(), w.db, []drive.NodeID{id}); err != nil || w.m.nodes[id].folder != sums[id].Known {
		t.Fatalf("%v was added up: %+v, %v", id, sums[id], err)
	}
}

// computeSums computes the sums of folders and of those below, as the use case does.
func (f *fixture) computeSums(t tb, folders ...drive.NodeID) {
	t.Helper()
	for {
		kids, err := tree.FoldersWithoutSum(t.Context(), f.db, folders, 1000)
		if err != nil {
			t.Fatal(err)
		}
		if len(kids) == 0 {
			break
		}
		f.computeSums(t, kids...)
	}
	for some := range slices.Chunk(folders, 100) {
		added, err := tree.ComputeSums(t.Context(), f.db, f.account, some)
		if err != nil {
			t.Fatal(err)
		}
		f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			if stale, err := tree.StoreSums(ctx, tx, added); err != nil || stale {
				t.Fatalf("stale %v: %v", stale, err)
			}
			return nil
		})
	}
}

// TestSumsOfOneTransaction: dependent changes of one transaction are counted once each, and those
// of a rolled-back attempt are not.
func TestSumsOfOneTransaction(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	a, b := g.mkdir(t, "/a"), g.mkdir(t, "/b")
	refused := drive.Fail(drive.Forbidden)
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		add := func(parent drive.NodeID, name drive.Name) {
			f, err := file(ctx, tx, tree.Place{Parent: parent, Name: name}, 10)
			if err == nil {
				_, err = g.tree.PutFile(ctx, tx, g.account, f)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		add(a.ID, "one")
		if failed, err := tx.Try(ctx, func(ctx context.Context, tx *sqldb.Tx) error {
			if _, err := g.tree.Edit(ctx, tx, g.account, a.ID, tree.Edit{Parent: b.ID}); err != nil {
				return err
			}
			add(a.ID, "undone")
			return refused
		}); err != nil || !drive.IsKind(failed, drive.Forbidden) {
			t.Fatal(failed, err)
		}
		n, err := g.tree.Edit(ctx, tx, g.account, a.ID, tree.Edit{Parent: b.ID})
		if err != nil {
			return err
		}
		add(n.ID, "two")
		inner, err := g.tree.CreateFolder(ctx, tx, g.account, tree.Place{Parent: n.ID, Name: "inner"})
		if err != nil {
			return err
		}
		add(inner.ID, "three")
		_, err = g.tree.Edit(ctx, tx, g.account, inner.ID, tree.Edit{Parent: g.root, Name: "outer"})
		return err
	})
	sums, err := tree.Sums(t.Context(), g.db, []drive.NodeID{g.root, a.ID, b.ID})
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[drive.NodeID]tree.Sum{
		g.root: {Files: 3, Folders: 3, Size: 30}, a.ID: {Files: 2, Size: 20}, b.ID: {Files: 2, Folders: 1, Size: 20},
	} {
		if sums[id].Sum != want || !sums[id].Known || sums[id].Sum != g.walkSums(t)[id].sum {
			t.Errorf("%+v, want %+v", sums[id], want)
		}
	}
	if sums[g.root].Seq < sums[a.ID].Seq || sums[b.ID].Seq < sums[a.ID].Seq {
		t.Errorf("a change is newer than the folders above it: %+v", sums)
	}
}

// TestStaleSums: sums computed before a change are not stored after it, nor over existing rows.
func TestStaleSums(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	a := g.mkdir(t, "/a")
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM folder_sums")
		return err
	})
	sumUp := func(added tree.ComputedSums) (stale bool) {
		t.Helper()
		g.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			stale, err = tree.StoreSums(ctx, tx, added)
			return err
		})
		return stale
	}
	add := func() tree.ComputedSums {
		t.Helper()
		added, err := tree.ComputeSums(t.Context(), g.db, g.account, []drive.NodeID{a.ID})
		if err != nil {
			t.Fatal(err)
		}
		return added
	}
	before := add()
	g.mkdir(t, "/b")
	if !sumUp(before) {
		t.Error("what was added up before a change was written after it")
	}
	first, second := add(), add()
	if sumUp(first) || !sumUp(second) {
		t.Error("of two that add up the same, not exactly one has written it")
	}
}

// TestWalkWithoutSums: Walk returns the same result whichever rows exist.
func TestWalkWithoutSums(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	a, b := g.mkdir(t, "/a"), g.mkdir(t, "/a/b")
	g.mkdir(t, "/a/c")
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		for _, parent := range []drive.NodeID{g.root, a.ID, b.ID} {
			f, err := file(ctx, tx, tree.Place{Parent: parent, Name: "f"}, 10)
			if err == nil {
				_, err = g.tree.PutFile(ctx, tx, g.account, f)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	ids := []drive.NodeID{g.root, a.ID, b.ID}
	sums, err := tree.Sums(t.Context(), g.db, ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, drop := range []drive.NodeID{{}, g.root, a.ID, b.ID} { // those above first, as the rows of folders are made
		g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			_, err := tx.Exec(ctx, "DELETE FROM folder_sums WHERE folder_id = ?", drop.String())
			return err
		})
		for _, id := range ids {
			seq, sum, err := tree.ComputeSum(t.Context(), g.db, id)
			if err != nil || seq != sums[id].Seq || sum != sums[id].Sum {
				t.Errorf("%d, %+v, %v, want %+v", seq, sum, err, sums[id])
			}
		}
	}
}
