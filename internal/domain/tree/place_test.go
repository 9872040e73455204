package tree_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

func TestPutFile(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	there := g.put(t, g.root, "a.txt")
	g.mkdir(t, "/dir")
	gone := g.mkdir(t, "/gone/below")
	top, err := g.tree.Resolve(t.Context(), g.db, g.account, drive.Path{"gone"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.trash(t, top.ID); err != nil {
		t.Fatal(err)
	}
	other := newFixtureIn(t, g.db, tree.Options{})
	for name, c := range map[string]struct {
		place tree.Place
		kind  drive.Kind
		path  string
	}{
		"free name":                  {tree.Place{Parent: g.root, Name: "b.txt"}, 0, "/b.txt"},
		"fail":                       {tree.Place{Parent: g.root, Name: "a.txt", Conflict: drive.ConflictFail}, drive.NameTaken, ""},
		"rename":                     {tree.Place{Parent: g.root, Name: "a.txt", Conflict: drive.ConflictRename}, 0, "/a (2).txt"},
		"replace what was seen":      {tree.Place{Parent: g.root, Name: "a.txt", Conflict: drive.ConflictReplace, Base: there.Version}, 0, "/a.txt"},
		"replace what was not seen":  {tree.Place{Parent: g.root, Name: "a.txt", Conflict: drive.ConflictReplace}, drive.VersionChanged, ""},
		"replace what is not there":  {tree.Place{Parent: g.root, Name: "c", Conflict: drive.ConflictReplace, Base: there.Version}, drive.VersionChanged, ""},
		"replace nothing":            {tree.Place{Parent: g.root, Name: "d", Conflict: drive.ConflictReplace}, 0, "/d"},
		"replace a folder":           {tree.Place{Parent: g.root, Name: "dir", Conflict: drive.ConflictReplace}, drive.NameTaken, ""},
		"in a file":                  {tree.Place{Parent: there.ID, Name: "x"}, drive.ParentGone, ""},
		"in a trashed folder":        {tree.Place{Parent: top.ID, Name: "x"}, drive.ParentGone, ""},
		"below a trashed folder":     {tree.Place{Parent: gone.ID, Name: "x"}, drive.ParentGone, ""},
		"nowhere":                    {tree.Place{Parent: drive.NewID[drive.NodeID](), Name: "x"}, drive.ParentGone, ""},
		"in somebody else's folder":  {tree.Place{Parent: other.root, Name: "x"}, drive.ParentGone, ""},
		"names differ by case alone": {tree.Place{Parent: g.root, Name: "A.TXT"}, 0, "/A.TXT"},
	} {
		// Each case runs in a transaction that is rolled back, so every case sees the same tree.
		rollback := fmt.Errorf("roll back")
		err := g.try(t, func(ctx context.Context, tx *sqldb.Tx) error {
			check := g.tree.CheckPlace(ctx, tx, g.account, c.place)
			f, err := file(ctx, tx, c.place, 1)
			if err != nil {
				return err
			}
			placed, err := g.tree.PutFile(ctx, tx, g.account, f)
			if drive.KindOf(check) != drive.KindOf(err) || (check == nil) != (err == nil) {
				t.Errorf("%s: PutFile says %v, CheckPlace said %v", name, err, check)
			}
			if err != nil {
				return err
			}
			path, live, err := g.tree.PathOf(ctx, tx, placed.Node.ID)
			if err != nil || !live || path.String() != c.path {
				t.Errorf("%s: placed at %v, live %v, error %v", name, path, live, err)
			}
			if placed.Created != (placed.Node.ID != there.ID) {
				t.Errorf("%s: created %v", name, placed.Created)
			}
			return rollback
		})
		if c.kind == 0 && !errors.Is(err, rollback) || c.kind != 0 && !drive.IsKind(err, c.kind) {
			t.Errorf("%s: got %v, want %v", name, err, c.kind)
		}
	}
}

func TestConflictRenameFindsFreeNumber(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	for i := range 40 {
		placed, err := g.tryPut(t, tree.Place{Parent: g.root, Name: "a.tar", Conflict: drive.ConflictRename}, 1)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("a (%d).tar", i+1)
		if i == 0 {
			want = "a.tar"
		}
		if string(placed.Node.Name) != want {
			t.Fatalf("copy %d is called %q, want %q", i+1, placed.Node.Name, want)
		}
	}
	long := drive.Name(strings.Repeat("é", 125) + ".jpeg")
	for range 2 {
		placed, err := g.tryPut(t, tree.Place{Parent: g.root, Name: long, Conflict: drive.ConflictRename}, 1)
		if err != nil {
			t.Fatal(err)
		}
		name, err := drive.ParseName(string(placed.Node.Name))
		if err != nil || name != placed.Node.Name || !strings.HasSuffix(string(name), ".jpeg") {
			t.Errorf("%q is no proper name: %v", placed.Node.Name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{MaxNodes: 260})
	deep := g.mkdir(t, strings.Repeat("/d", drive.MaxDepth))
	_, err := g.tryPut(t, tree.Place{Parent: deep.ID, Name: "x"}, 1)
	wantKind(t, err, drive.BadName)
	g.mkdir(t, "/side/below")
	side, err := g.tree.Resolve(t.Context(), g.db, g.account, drive.Path{"side"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.edit(t, side.ID, tree.Edit{Parent: deep.Parent})
	wantKind(t, err, drive.BadName) // the folder fits, its content does not
	long := "/" + strings.Repeat("n", 255)
	g.mkdir(t, strings.Repeat(long, 15)) // 3,840 bytes
	below, err := g.tree.Resolve(t.Context(), g.db, g.account, drive.Path{drive.Name(long[1:])})
	if err != nil {
		t.Fatal(err)
	}
	_, err = g.edit(t, below.ID, tree.Edit{Parent: g.mkdir(t, "/"+strings.Repeat("m", 255)+"/x").ID})
	wantKind(t, err, drive.BadName)
	for i := 0; err == nil || !drive.IsKind(err, drive.TooLarge); i++ {
		if _, err = g.tryPut(t, tree.Place{Parent: g.root, Name: drive.Name(fmt.Sprint(i))}, 1); i > 260 {
			t.Fatal("the limit of nodes was never reached")
		}
	}
}

func TestVersionsAreDroppedByAgeAndNumber(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	n, dropped := g.put(t, g.root, "f"), 0
	for i := range 12 {
		if i == 8 {
			g.now = g.now.AddDate(0, 0, 31) // all existing versions are old now
		}
		placed, err := g.tryPut(t, tree.Place{Parent: g.root, Name: "f", Conflict: drive.ConflictReplace, Base: n.Version}, 1)
		if err != nil {
			t.Fatal(err)
		}
		n, dropped = placed.Node, dropped+len(placed.Dropped)
		left, err := g.tree.Versions(t.Context(), g.db, n.ID, drive.VersionID{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		if want := min(i+2, 9); i < 8 && len(left) != want || i >= 8 && len(left) != 5 || left[0].ID != n.Version {
			t.Errorf("after replacement %d there are %d versions", i, len(left))
		}
		if len(left)+dropped != i+2 {
			t.Errorf("%d versions left and %d dropped of %d", len(left), dropped, i+2)
		}
	}
}

// TestChangesPerDayAreLimited: an account creates, changes and moves at most MaxChanges nodes per
// day, however few exist at a time. Permanent deletion is always possible.
func TestChangesPerDayAreLimited(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{MaxChanges: 5})
	for range 2 { // deleted at once, so there is never more than one
		n := g.put(t, g.root, "n")
		if _, err := g.purge(t, n.ID, 10); err != nil {
			t.Fatal(err)
		}
	}
	n := g.put(t, g.root, "n")
	for _, name := range []drive.Name{"fourth", "fifth"} {
		if _, err := g.edit(t, n.ID, tree.Edit{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := g.edit(t, n.ID, tree.Edit{Name: "sixth"})
	wantKind(t, err, drive.TooLarge)
	_, err = g.tryPut(t, tree.Place{Parent: g.root, Name: "another"}, 1)
	wantKind(t, err, drive.TooLarge)
	if _, err := g.purge(t, n.ID, 10); err != nil {
		t.Errorf("delete for good after the last change of the day: %v", err)
	}
	g.now = g.now.Add(24 * time.Hour)
	g.put(t, g.root, "tomorrow")
}
