package export

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

// An empty folder is an entry like any other: listed, counted, reused by a supplement and released
// at the end, but without content.
func TestBatchHasEmptyFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a")
	w.put(t, "/d/full/a", "first")
	for _, at := range []string{"/d/none/below/x", "/d/none/other/x", "/gone/x", "/empty/x"} {
		w.purge(t, w.put(t, at, "x"))
	}
	gone := w.folder(t, "/gone")
	for _, c := range []struct {
		in   Request
		want string
	}{
		{Request{Folder: w.folder(t, "/d")}, "d/full/a d/none/below/ d/none/other/"},
		{Request{Folder: w.folder(t, "/d/none")}, "none/below/ none/other/"},
		{Request{Folder: w.folder(t, "/empty")}, "empty/"},
		{Request{Folder: w.folder(t, "/d"), Filter: Filter{Pattern: "a*"}}, "d/full/a"},
		{Request{Folder: w.folder(t, "/d"), Names: "{name}"}, "d/a"},
		{Request{Nodes: []drive.NodeID{w.folder(t, "/empty"), w.folder(t, "/d/full")}, Index: true}, "export/empty/ export/full/a index.csv"},
	} {
		v := w.create(t, e, c.in)
		w.finish(t, e)
		_, files := w.download(t, e, v.ID)
		if got := strings.Join(slices.Sorted(maps.Keys(files)), " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		w.check(t)
	}

	v := w.create(t, e, Request{Nodes: []drive.NodeID{w.folder(t, "/empty"), gone, w.folder(t, "/d/full")}})
	w.purge(t, gone)
	w.finish(t, e)
	if got := w.get(t, e, v.ID); got.State != Sealed || got.Total != 3 || got.Collected != 2 || got.Failed != 1 {
		t.Errorf("it is %s with %d + %d of %d: %s", got.State, got.Collected, got.Failed, got.Total, got.Error)
	}
	more := SupplementRequest{Mode: WithPrevious, Items: []ReplacedSource{{N: 2, Item: Item{Path: "/d/full/a"}}}}
	next, err := e.Supplement(t.Context(), w.who, v.ID, more, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.finish(t, e)
	_, files := w.download(t, e, next.ID)
	want := map[string]string{"export/empty/": "", "export/gone": "first", "export/full/a": "first"}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Error(diff)
	}
	w.check(t)
	for _, id := range []drive.ExportID{v.ID, next.ID} {
		if err := e.Cancel(t.Context(), w.who, id); err != nil {
			t.Fatal(err)
		}
	}
	w.check(t)
	if n := w.count(t, "SELECT COUNT(*) FROM export_pins WHERE export_id IN (?, ?)", v.ID, next.ID); n != 0 {
		t.Errorf("%d entries are held after the end", n)
	}
}

// Empty folders count as entries when a list is split, and in a zip so far.
func TestEmptyFoldersOfASet(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "a", func(o *Options) { o.MaxEntries = 2 })
	for _, at := range []string{"/d/1/x", "/d/2/x", "/d/3/x"} {
		w.purge(t, w.put(t, at, "x"))
	}
	first := w.create(t, e, Request{Folder: w.folder(t, "/d")})
	d, err := e.OpenSoFar(t.Context(), w.who, "somebody", first.ID)
	if err != nil {
		t.Fatal(err)
	}
	_, files := served(t, d)
	d.Close()
	if text := files["err-1of2.txt"]; len(files) != 1 || !strings.Contains(text, "/d/1\tpending") || !strings.Contains(text, "/d/2\tpending") {
		t.Errorf("before anything has arrived it has %q", files)
	}
	w.finish(t, e)
	set, err := e.ListSet(t.Context(), w.who, first.ID)
	if err != nil || len(set) != 2 {
		t.Fatalf("%d parts: %v", len(set), err)
	}
	var got []string
	for _, v := range set {
		_, files := w.download(t, e, v.ID)
		got = append(got, strings.Join(slices.Sorted(maps.Keys(files)), " "))
	}
	if diff := cmp.Diff([]string{"d/1/ d/2/", "d/3/"}, got); diff != "" {
		t.Error(diff)
	}
	w.check(t)
}
