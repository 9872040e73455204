package tree_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/tree"
	"example.org/smartdrive/internal/engine/sqldb"
)

// search returns the paths found, over all pages.
func (f *fixture) search(t *testing.T, s tree.Search) []string {
	t.Helper()
	paths := []string{}
	for {
		page, err := f.tree.Search(t.Context(), f.db, f.account, s)
		if err != nil {
			t.Fatal(err)
		}
		spots, err := f.tree.LocationsOf(t.Context(), f.db, page.Items)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range page.Items {
			paths = append(paths, append(slices.Clip(spots[n.Parent].Path), n.Name).String())
		}
		if page.Next == "" {
			return paths
		}
		s.Cursor = page.Next
	}
}

func (f *fixture) putAt(t *testing.T, path string, size drive.ByteSize, mtime drive.Time) tree.Node {
	t.Helper()
	parsed, err := drive.ParsePath(path)
	if err != nil {
		t.Fatal(err)
	}
	above, name, _ := parsed.Split()
	folder := f.mkdir(t, above.String())
	var n tree.Node
	f.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
		content, err := file(ctx, tx, tree.Place{Parent: folder.ID, Name: name}, size)
		if err != nil {
			return err
		}
		content.MTime = mtime
		placed, err := f.tree.PutFile(ctx, tx, f.account, content)
		n = placed.Node
		return err
	})
	return n
}

func TestSearch(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	for i, path := range []string{
		"/Report.PDF", "/desk/report 2025.pdf", "/desk/100%_report.txt", "/desk/old/raport.txt", "/Straße.jpg",
		"/desk/CAFÉ.jpeg", "/报告/年度报告.docx", "/100x_report.txt", "/gone/report.pdf", "/desk/gone report.pdf", "/it's a \\report!.md",
	} {
		g.putAt(t, path, drive.ByteSize(100*(i+1)), drive.Time(1000*(i+1)))
	}
	other := newFixtureIn(t, g.db, tree.Options{})
	other.putAt(t, "/report of others.pdf", 1, 1)
	work := g.mkdir(t, "/desk")
	gone := g.mkdir(t, "/gone")
	trashed, _, err := g.tree.Child(t.Context(), g.db, g.account, work.ID, "gone report.pdf")
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []drive.NodeID{gone.ID, trashed.ID} {
		if _, err := g.trash(t, id); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name string
		s    tree.Search
		want []string
	}{
		{"whatever the case, in folded order", tree.Search{Name: "REPORT"}, []string{
			"/desk/100%_report.txt", "/100x_report.txt", `/it's a \report!.md`, "/desk/report 2025.pdf", "/Report.PDF",
		}},
		{"a percent sign is one", tree.Search{Name: "0%_"}, []string{"/desk/100%_report.txt"}},
		{"a quote is one", tree.Search{Name: "'s a \\"}, []string{`/it's a \report!.md`}},
		{"folding makes letters two", tree.Search{Name: "STRASSE"}, []string{"/Straße.jpg"}},
		{"decomposed is composed", tree.Search{Name: "cafe\u0301"}, []string{"/desk/CAFÉ.jpeg"}},
		{"Chinese", tree.Search{Name: "报告"}, []string{"/报告/年度报告.docx", "/报告"}},
		{"folders alone", tree.Search{Name: "报告", Type: tree.TypeFolder}, []string{"/报告"}},
		{"below a folder", tree.Search{Name: "r", In: work.ID}, []string{"/desk/100%_report.txt", "/desk/old/raport.txt", "/desk/report 2025.pdf"}},
		{"a folder is not below itself", tree.Search{Name: "wor", In: work.ID}, []string{}},
		{"by extension", tree.Search{Ext: []string{"JPG", "jpeg"}}, []string{"/desk/CAFÉ.jpeg", "/Straße.jpg"}},
		{"an extension is no pattern", tree.Search{Ext: []string{"p%", "_df", "!"}}, []string{}},
		{"by size", tree.Search{MinSize: 200, MaxSize: 300}, []string{"/desk/100%_report.txt", "/desk/report 2025.pdf"}},
		{"by time", tree.Search{After: 4000, Before: 6000, Type: tree.TypeFile}, []string{"/desk/old/raport.txt", "/Straße.jpg"}},
		{"nothing", tree.Search{Name: "report/"}, []string{}},
	} {
		for _, limit := range []int{0, 1, 2} {
			c.s.Limit = limit
			if diff := cmp.Diff(c.want, g.search(t, c.s)); diff != "" {
				t.Errorf("%s, by %d: %s", c.name, limit, diff)
			}
		}
	}
}

func TestCursorOfOtherSearchIsInvalid(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	g.put(t, g.root, "a1")
	g.put(t, g.root, "a2")
	page, err := g.tree.Search(t.Context(), g.db, g.account, tree.Search{Name: "a", Limit: 1})
	if err != nil || page.Next == "" {
		t.Fatal(page, err)
	}
	for _, s := range []tree.Search{{Name: "b"}, {Name: "a", Type: tree.TypeFile}, {Name: "a", In: g.root}, {Name: "a", Ext: []string{"x"}}} {
		s.Cursor = page.Next
		if _, err := g.tree.Search(t.Context(), g.db, g.account, s); !drive.IsKind(err, drive.CursorInvalid) {
			t.Errorf("the cursor of another search is taken for %+v: %v", s, err)
		}
	}
}

// TestSearchContinuesPastTrash: matches that must not be shown end a call early, and later calls
// continue without loss.
func TestSearchContinuesPastTrash(t *testing.T) {
	t.Parallel()
	g := newFixture(t, tree.Options{})
	folder := g.mkdir(t, "/many")
	insertFiles(t, g, folder.ID, 12_000)
	if _, err := g.trash(t, folder.ID); err != nil {
		t.Fatal(err)
	}
	g.put(t, g.root, "file 99999 is live.txt")
	first, err := g.tree.Search(t.Context(), g.db, g.account, tree.Search{Name: "FILE"})
	if err != nil || len(first.Items) != 0 || first.Next == "" {
		t.Errorf("the first call gives %d, next %q, %v", len(first.Items), first.Next, err)
	}
	if got := g.search(t, tree.Search{Name: "FILE"}); len(got) != 1 {
		t.Errorf("found %q", got)
	}
}

// insertFiles inserts n nodes "file 00001.txt" directly as rows, with what a search reads.
func insertFiles(t testing.TB, g *fixture, folder drive.NodeID, n int) {
	t.Helper()
	for i := 0; i < n; i += 500 {
		g.write(t, func(ctx context.Context, tx *sqldb.Tx) error {
			for k := i; k < min(i+500, n); k++ {
				name := drive.Name(fmt.Sprintf("File %05d of the year.txt", k))
				if _, err := tx.Exec(ctx, `INSERT INTO nodes (id, account_id, parent_id, name, name_fold, slot, type, mtime, rev, seq, created_at,
					updated_at) VALUES (?, ?, ?, ?, ?, ?, 'file', ?, 1, 1, 1, 1)`, drive.NewID[drive.NodeID](), g.account, folder, name, name.Fold(), name, k); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// BenchmarkSearch measures searches among 100,000 nodes in 1,000 folders.
func BenchmarkSearch(b *testing.B) {
	g := newFixture(b, tree.Options{})
	for i := range 1000 {
		insertFiles(b, g, g.mkdir(b, fmt.Sprintf("/d%02d/e%d", i/10, i)).ID, 100)
	}
	for name, s := range map[string]tree.Search{
		"one of all":         {Name: "00077 OF", Limit: 200},
		"nothing":            {Name: "nowhere", Limit: 200},
		"first page of all":  {Name: "year", Limit: 200},
		"all in a folder":    {Name: "year", In: g.mkdir(b, "/d99").ID, Limit: 200},
		"by time":            {After: 99, Limit: 200},
		"by extension":       {Ext: []string{"pdf"}, Limit: 200},
		"short page of 1000": {Name: "e", Type: tree.TypeFolder, Limit: 200},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := g.tree.Search(b.Context(), g.db, g.account, s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
