package tree_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

func TestRestore(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	home := g.mkdir(t, "/home")
	away := g.mkdir(t, "/away")
	f := g.put(t, home.ID, "f")
	cycle := func(r tree.Restore, want string, kind drive.Kind) {
		t.Helper()
		for range 2 { // trashing is idempotent
			if _, err := g.trash(t, f.ID); err != nil {
				t.Fatal(err)
			}
		}
		n, err := g.restore(t, f.ID, r)
		if kind != 0 {
			wantKind(t, err, kind)
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if again, err := g.restore(t, f.ID, r); err != nil || again != n {
			t.Errorf("restoring again gave %+v, %v", again, err)
		}
		if path, live := g.path(t, f.ID); path != want || !live {
			t.Errorf("restored to %s, live %v; want %s", path, live, want)
		}
	}
	cycle(tree.Restore{}, "/home/f", 0)
	cycle(tree.Restore{Parent: away.ID}, "/away/f", 0)
	cycle(tree.Restore{Parent: home.ID}, "/home/f", 0)
	if _, err := g.trash(t, f.ID); err != nil {
		t.Fatal(err)
	}
	g.put(t, home.ID, "f") // somebody takes the name
	cycle(tree.Restore{Conflict: drive.ConflictFail}, "", drive.NameTaken)
	cycle(tree.Restore{}, "/home/f (2)", 0)
	if _, err := g.trash(t, home.ID); err != nil {
		t.Fatal(err)
	}
	cycle(tree.Restore{}, "/f (2)", 0) // the folder is in the trash: below the root, alone
	cycle(tree.Restore{Parent: home.ID}, "", drive.ParentGone)
}

func TestPurgeKeepsSeparatelyTrashedNodes(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	dir := g.mkdir(t, "/dir/sub")
	early, late := g.put(t, dir.ID, "early"), g.put(t, dir.ID, "late")
	if _, err := g.trash(t, early.ID); err != nil {
		t.Fatal(err)
	}
	dropped, err := g.purge(t, dir.Parent, 1)
	if err != nil || len(dropped) != 1 || dropped[0].Node != late.ID {
		t.Fatalf("dropped %+v, %v", dropped, err)
	}
	trash, err := g.tree.ListTrash(t.Context(), g.db, g.account, tree.List{})
	if err != nil || len(trash.Items) != 1 || trash.Items[0].ID != early.ID {
		t.Fatalf("the trash holds %+v, %v", trash.Items, err)
	}
	if n, err := g.restore(t, early.ID, tree.Restore{}); err != nil || n.Parent != g.root {
		t.Errorf("restored to %+v, %v", n, err)
	}
}

func TestPurgeResumesAnywhere(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	for i := range 30 {
		g.put(t, g.mkdir(t, fmt.Sprintf("/top/%d/x", i%4)).ID, drive.Name(fmt.Sprint(i)))
	}
	top, err := g.tree.Resolve(t.Context(), g.db, g.account, drive.Path{"top"})
	if err != nil {
		t.Fatal(err)
	}
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		_, err := g.tree.MarkForPurge(ctx, tx, g.account, top.ID, tree.Expect{}, drive.NewID[drive.OperationID]())
		return err
	})
	crash := errors.New("the process died")
	versions := 0
	for step, done := 0, false; !done; step++ {
		err := g.try(t, func(ctx context.Context, tx *sqldb.Tx) error {
			p, err := g.tree.PurgeStep(ctx, tx, g.account, top.ID, 5)
			if err == nil && step%2 == 0 {
				return crash // after the work, before the commit
			}
			versions, done = versions+len(p.Versions), p.Done
			return err
		})
		if err != nil && !errors.Is(err, crash) {
			t.Fatal(err)
		}
		if !done {
			if _, err := g.restore(t, top.ID, tree.Restore{}); !drive.IsKind(err, drive.NotFound) {
				t.Fatalf("half a folder could be restored: %v", err)
			}
			if trash, err := g.tree.ListTrash(t.Context(), g.db, g.account, tree.List{}); err != nil || len(trash.Items) > 0 {
				t.Fatalf("what is being purged is in the trash: %+v, %v", trash, err)
			}
		}
		if was, err := g.tree.Purged(t.Context(), g.db, g.account, top.ID); err != nil || !was {
			t.Fatalf("purged: %v, %v", was, err)
		}
	}
	if versions != 30 {
		t.Errorf("%d versions were handed back, want 30", versions)
	}
}

func TestConcurrentMovesMakeNoCycle(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	for round := range 20 {
		a, b := g.mkdir(t, fmt.Sprintf("/a%d", round)), g.mkdir(t, fmt.Sprintf("/b%d", round))
		var errs [2]error
		var both sync.WaitGroup
		move := func(i int, id, parent drive.NodeID) func() {
			return func() { _, errs[i] = g.edit(t, id, tree.Edit{Parent: parent}) }
		}
		both.Go(move(0, a.ID, b.ID))
		both.Go(move(1, b.ID, a.ID))
		both.Wait()
		if !slices.ContainsFunc(errs[:], func(err error) bool { return err == nil }) ||
			!slices.ContainsFunc(errs[:], func(err error) bool { return drive.IsKind(err, drive.Cycle) }) {
			t.Fatalf("one move should win and the other be a cycle: %v", errs)
		}
		for _, id := range []drive.NodeID{a.ID, b.ID} {
			if path, live := g.path(t, id); !live || !strings.HasPrefix(path, "/") {
				t.Errorf("%v is at %q, live %v", id, path, live)
			}
		}
	}
}

func TestDroppedTombstonesExpireFeeds(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	start, err := g.tree.Changes(t.Context(), g.db, g.account, tree.Position{}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := g.purge(t, g.put(t, g.root, drive.Name(fmt.Sprint(i))).ID, 10); err != nil {
			t.Fatal(err)
		}
	}
	g.put(t, g.root, "stays")
	g.put(t, g.root, "stays too")
	g.now = g.now.AddDate(0, 0, 91)
	forgotten := int64(0)
	for n := int64(1); n > 0; forgotten += n {
		g.write(t, func(ctx context.Context, tx *sqldb.Tx) (err error) {
			n, err = g.tree.DropTombstones(ctx, tx, g.account, drive.TimeOf(g.now.AddDate(0, 0, -90)), 2)
			return err
		})
	}
	if forgotten != 5 {
		t.Errorf("forgot %d tombstones, want 5", forgotten)
	}
	_, err = g.tree.Changes(t.Context(), g.db, g.account, start.Next, 1000)
	wantKind(t, err, drive.Gone)
	_, err = g.tree.Changes(t.Context(), g.db, g.account, tree.Position{Seq: 1 << 40}, 1000)
	wantKind(t, err, drive.Gone)
	// A first pass continues past dropped tombstones, however small its pages.
	seen := 0
	for at, more := (tree.Position{}), true; more; {
		f, err := g.tree.Changes(t.Context(), g.db, g.account, at, 1)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := tree.ParsePosition(f.Next.String())
		if err != nil || parsed != f.Next {
			t.Fatalf("position %+v reads back as %+v, %v", f.Next, parsed, err)
		}
		at, more, seen = parsed, f.More, seen+len(f.Items)
	}
	if seen != 3 {
		t.Errorf("saw %d nodes, want the root and two files", seen)
	}
}

func TestChildrenPages(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	for i := range 23 {
		name := drive.Name(fmt.Sprintf("f%02d", (i*7)%23))
		if _, err := g.tryPut(t, tree.Place{Parent: g.root, Name: name}, drive.ByteSize(i%5)); err != nil {
			t.Fatal(err)
		}
	}
	g.write(t, func(ctx context.Context, tx *sqldb.Tx) error { // every third is an image
		_, err := tx.Exec(ctx, "UPDATE versions SET mime = 'image/png' WHERE size IN (1, 4)")
		return err
	})
	for _, name := range []string{"/folder", "/a folder", "/f10 and more", "/zoo", "/f07 too"} {
		g.mkdir(t, name)
	}
	for _, sort := range []tree.Sort{tree.SortName, tree.SortSize, tree.SortMTime, tree.SortType} {
		for _, l := range []tree.List{
			{Sort: sort}, {Sort: sort, Desc: true}, {Sort: sort, FoldersFirst: true}, {Sort: sort, Desc: true, FoldersFirst: true},
		} {
			checkPages(t, g, l)
		}
	}
}

// inOrder returns the comparison of a list's order.
func inOrder(l tree.List) func(a, b tree.Node) int {
	return func(a, b tree.Node) int {
		if l.FoldersFirst && a.IsFolder() != b.IsFolder() {
			if a.IsFolder() {
				return -1
			}
			return 1
		}
		c := map[tree.Sort]int{
			tree.SortSize: int(a.Size - b.Size), tree.SortMTime: int(a.MTime - b.MTime), tree.SortType: strings.Compare(a.Mime, b.Mime),
		}[l.Sort]
		if c = cmp.Or(c, strings.Compare(string(a.Name), string(b.Name))); l.Desc {
			c = -c
		}
		return c
	}
}

func checkPages(t *testing.T, g *fixture, l tree.List) {
	t.Helper()
	whole, err := g.tree.Children(t.Context(), g.db, g.root, l)
	if err != nil || len(whole.Items) != 28 || whole.Next != "" {
		t.Fatalf("%+v: %d items, %v", l, len(whole.Items), err)
	}
	if !slices.IsSortedFunc(whole.Items, inOrder(l)) {
		t.Errorf("%+v is not in order", l)
	}
	for _, limit := range []int{1, 4, 5, 6, 27, 28} {
		var paged []tree.Node
		for at := l; ; {
			at.Limit = limit
			page, err := g.tree.Children(t.Context(), g.db, g.root, at)
			if err != nil {
				t.Fatal(err)
			}
			paged = append(paged, page.Items...)
			if at.Cursor = page.Next; at.Cursor == "" {
				break
			}
			for _, other := range []tree.List{{Sort: l.Sort, Desc: !l.Desc, FoldersFirst: l.FoldersFirst}, {Sort: l.Sort, Desc: l.Desc, FoldersFirst: !l.FoldersFirst}} {
				other.Cursor = at.Cursor
				_, err = g.tree.Children(t.Context(), g.db, g.root, other)
				wantKind(t, err, drive.CursorInvalid)
			}
		}
		if !slices.Equal(paged, whole.Items) {
			t.Errorf("%+v: the pages of %d together are not the list", l, limit)
		}
	}
}
