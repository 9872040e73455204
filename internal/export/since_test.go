package export

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
)

// The next export has the changes since the last sealed export, including files with an old time
// and moved folders.
func TestExportChangesSinceLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.process(w.db, "one", func(o *Options) { o.MaxEntries = 2 })
	w.put(t, "/in/a.pdf", "a")
	w.put(t, "/in/b.pdf", "b")
	w.put(t, "/in/c.txt", "c")
	w.put(t, "/other/deep/d.pdf", "d")
	next := Request{Folder: w.folder(t, "/in"), Filter: Filter{SinceLast: true, Ext: []string{"pdf"}}}
	check := func(what string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, w.names(t, e, next)); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
	}
	check("before the first", "a.pdf /in/a.pdf", "b.pdf /in/b.pdf")
	w.put(t, "/in/sub/e.pdf", "e")
	all := next
	all.Filter.SinceLast = false
	w.create(t, e, all)        // in two parts
	w.put(t, "/in/f.pdf", "f") // after the list was made
	e.workers.work(t.Context(), w.claim(t, e))
	check("while a part is not sealed", "a.pdf /in/a.pdf", "b.pdf /in/b.pdf", "f.pdf /in/f.pdf", "sub/e.pdf /in/sub/e.pdf")
	w.finish(t, e)
	check("after it", "f.pdf /in/f.pdf")
	n, err := w.tree.Find(t.Context(), w.db, w.who.Account, w.folder(t, "/other/deep"))
	if err != nil {
		t.Fatal(err)
	}
	w.move(t, n, next.Folder)
	check("after a folder came", "deep/d.pdf /in/deep/d.pdf", "f.pdf /in/f.pdf")
	w.create(t, e, next)
	w.finish(t, e)
	if _, err := e.Create(t.Context(), w.who, next, nil); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("when nothing has changed: %v", err)
	}
	none := Request{Folder: next.Folder, Filter: Filter{Ext: []string{"docx"}}}
	if _, err := e.Create(t.Context(), w.who, none, nil); !drive.IsKind(err, drive.WrongState) {
		t.Errorf("when no file matches: %v", err)
	}
	next.Filter.Ext = nil
	check("by another filter", "a.pdf /in/a.pdf", "b.pdf /in/b.pdf", "c.txt /in/c.txt", "deep/d.pdf /in/deep/d.pdf", "f.pdf /in/f.pdf", "sub/e.pdf /in/sub/e.pdf")
	for _, bad := range []Request{
		{Nodes: []drive.NodeID{next.Folder}, Filter: Filter{SinceLast: true}},
		{Folder: next.Folder, Filter: Filter{SinceLast: true, Month: "2026-11"}},
	} {
		if _, err := e.Create(t.Context(), w.who, bad, nil); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

// A file belongs to the day of its last change in the given zone.
func TestFilterDays(t *testing.T) {
	t.Parallel()
	w := newWorld(t) // noon of the 21st
	e := w.process(w.db, "one")
	w.put(t, "/in/a.pdf", "a")
	w.advance(11 * time.Hour) // 23:00 UTC
	w.put(t, "/in/b.pdf", "b")
	for _, c := range []struct {
		f    Filter
		want string
	}{
		{Filter{From: "2026-11-21", To: "2026-11-21"}, "ab"},
		{Filter{From: "2026-11-22"}, ""},
		{Filter{From: "2026-11-22", Zone: "Asia/Shanghai"}, "b"},
		{Filter{To: "2026-11-21", Zone: "Asia/Shanghai"}, "a"},
		{Filter{To: "2026-11-20"}, ""},
	} {
		got := ""
		for _, name := range w.names(t, e, Request{Folder: w.folder(t, "/in"), Filter: c.f}) {
			got += name[:1]
		}
		if got != c.want {
			t.Errorf("%+v means %q", c.f, got)
		}
	}
	for _, f := range []Filter{{From: "2026-11"}, {From: "2026-11-22", To: "2026-11-21"}, {From: "2026-11-22", Month: "2026-11"}, {XML: true}} {
		if _, err := f.compile(); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestNamesByPattern(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pdf, xml := w.put(t, "/intake/acme/b/a.pdf", "the PDF"), w.put(t, "/intake/acme/b/a.xml", "the XML")
	docs := fakeDocuments{map[string][]Document{"acme ": {
		{ID: "1", Number: "A/1", Date: "2026-10-05", Seller: "Müller / Söhne", PDF: pdf, File: xml, Ext: ".xml", ReceivedAt: start},
		{ID: "2", Number: "=A2", Date: "2026-11-06", Seller: "..", ReceivedAt: start},
	}}}
	e := w.process(w.db, "1", func(o *Options) { o.Documents = docs })
	v := w.create(t, e, Request{
		Folder: w.folder(t, "/intake/acme"), Filter: Filter{Documents: true, XML: true, From: "2026-10-05"}, Names: "{seller}/{year}/{date} {number}", Index: true,
	})
	w.finish(t, e)
	_, files := w.download(t, e, v.ID)
	if files["acme/Müller - Söhne/2026/2026-10-05 A-1.pdf"] != "the PDF" || files["acme/Müller - Söhne/2026/2026-10-05 A-1.xml"] != "the XML" {
		t.Errorf("the zip has %q", files)
	}
	want := "\ufeffn,id,name,source,size,modified,state,reason\r\n" +
		"1,1,acme/Müller - Söhne/2026/2026-10-05 A-1.pdf,2026-10-05 A-1,7,2026-11-21T12:00:00Z,packed,\r\n" +
		"2,1,acme/Müller - Söhne/2026/2026-10-05 A-1.xml,2026-10-05 A-1.xml,7,2026-11-21T12:00:00Z,packed,\r\n" +
		"3,2,,2026-11-06 =A2 has no PDF,,,missing,missing\r\n"
	if diff := cmp.Diff(want, files["index.csv"]); diff != "" {
		t.Error(diff)
	}
	w.put(t, "/in/sub/x.pdf", "x")
	for pattern, want := range map[string]string{
		"{year}/{folder}/{name}": "2026/sub/x.pdf /in/sub/x.pdf", "{date}": "2026-11-21.pdf /in/sub/x.pdf", "name {day}": "name 21.pdf /in/sub/x.pdf",
	} {
		if diff := cmp.Diff([]string{want}, w.names(t, e, Request{Folder: w.folder(t, "/in"), Names: pattern})); diff != "" {
			t.Errorf("%s: %s", pattern, diff)
		}
	}
	for _, pattern := range []string{"{seller}", "all", "{name", "name}", "{name}\n", "{}", "{name}" + strings.Repeat("x", maxNaming)} {
		if _, err := parseNaming(pattern, false); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
	if got := escapeFormula("=A2"); got != "'=A2" {
		t.Errorf("a formula becomes %s", got)
	}
	w.check(t)
}
