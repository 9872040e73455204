package export

import (
	"archive/zip"
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

func TestDirectLeavesNoRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one", func(o *Options) { o.MaxEntries = 1 })
	e.sender.directMost = 3
	w.put(t, "/d/a", "first")
	b := w.put(t, "/d/b", "second")
	in := Request{Folder: w.folder(t, "/d")}
	for range sendMemory/directMemory + 1 { // each releases its slot, also after a failure
		if _, err := e.OpenDirect(t.Context(), w.who, "somebody", Request{Folder: b}); !drive.IsKind(err, drive.BadRequest) {
			t.Fatalf("of a file: %v", err)
		}
		d, err := e.OpenDirect(t.Context(), w.who, "somebody", in)
		if err != nil {
			t.Fatal(err)
		}
		d.Close()
	}
	d, err := e.OpenDirect(t.Context(), w.who, "somebody", in)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	rec := httptest.NewRecorder()
	d.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "somebody", nil)
	z, err := zip.NewReader(bytes.NewReader(rec.Body.Bytes()), int64(rec.Body.Len()))
	if err != nil || len(z.File) != 2 || z.File[1].Name != "d/b" || drive.ByteSize(rec.Body.Len()) != d.Size {
		t.Fatalf("it has %v: %v", z, err)
	}
	var rows int
	err = w.db.QueryRow(t.Context(), "SELECT (SELECT COUNT(*) FROM exports) + (SELECT COUNT(*) FROM export_wants) + (SELECT COUNT(*) FROM export_pins)").Scan(&rows)
	if err != nil || rows != 0 {
		t.Errorf("%d rows are left: %v", rows, err)
	}
	w.check(t)
	w.put(t, "/d/c", "3")
	w.put(t, "/d/d", "4")
	if _, err := e.OpenDirect(t.Context(), w.who, "somebody", in); !drive.IsKind(err, drive.TooLarge) {
		t.Errorf("one that is too long: %v", err)
	}
}

func TestConcurrentDownloadsAreLimited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	w.put(t, "/d/a", "first")
	in := Request{Folder: w.folder(t, "/d")}
	for range sendMemory / directMemory {
		d, err := e.OpenDirect(t.Context(), w.who, "somebody", in)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
	}
	if _, err := e.OpenDirect(t.Context(), w.who, "somebody", in); !drive.IsKind(err, drive.Unavailable) {
		t.Errorf("one too many: %v", err)
	}
}

// Empty folders are entries, so that an unpacked tree has them.
func TestDirectHasEmptyFolders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one")
	w.put(t, "/d/full/a", "first")
	for _, at := range []string{"/d/none/below/x", "/d/none/other/x", "/empty/x"} {
		w.purge(t, w.put(t, at, "x"))
	}
	for _, c := range []struct {
		in   Request
		want string
	}{
		{Request{Folder: w.folder(t, "/d")}, "d/full/a d/none/below/ d/none/other/"},
		{Request{Folder: w.folder(t, "/d/none")}, "none/below/ none/other/"},
		{Request{Folder: w.folder(t, "/empty")}, "empty/"},
		{Request{Nodes: []drive.NodeID{w.folder(t, "/empty"), w.folder(t, "/d/full")}}, "export/empty/ export/full/a"},
	} {
		d, err := e.OpenDirect(t.Context(), w.who, "somebody", c.in)
		if err != nil {
			t.Fatalf("%s: %v", c.want, err)
		}
		rec := httptest.NewRecorder()
		d.Serve(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil), "somebody", nil)
		d.Close()
		z, err := zip.NewReader(bytes.NewReader(rec.Body.Bytes()), int64(rec.Body.Len()))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range z.File {
			names = append(names, f.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
