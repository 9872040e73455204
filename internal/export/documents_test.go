package export

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// fakeDocuments implements Documents.
type fakeDocuments struct{ of map[string][]Document }

func (t fakeDocuments) Each(_ context.Context, _ drive.AccountID, source, month string, of Selection, fn func(Document) error) error {
	for _, d := range t.of[source+" "+month] {
		if of.Seller != "" && of.Seller != d.Seller {
			continue
		}
		if err := fn(d); err != nil {
			return err
		}
	}
	return nil
}

// A selection of documents is exported with PDF, XML and index, and nothing else.
func TestDocumentSelectionIsExported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	xml, pdf := w.put(t, "/intake/acme/b/a.xml", "the invoice"), w.put(t, "/intake/acme/b/a.pdf", "its picture")
	docs := fakeDocuments{map[string][]Document{" ": {
		{ID: "1", Number: "A/1", Date: "2026-10-05", Seller: "Muster AG", File: xml, PDF: pdf, Ext: ".xml"},
		{ID: "2", Number: "B/1", Date: "2026-10-05", Seller: "Andere AG", File: xml, PDF: pdf, Ext: ".xml"},
	}}}
	e := w.process(w.db, "1", func(o *Options) { o.Documents = docs })
	in := Request{Folder: w.folder(t, "/intake"), Index: true, Filter: Filter{Documents: true, XML: true, Of: Selection{Seller: "Muster AG", Min: "1.50"}}}
	v := w.create(t, e, in)
	w.finish(t, e)
	_, files := w.download(t, e, v.ID)
	if len(files) != 3 || files["intake/2026-10-05 A-1.xml"] != "the invoice" || files["intake/2026-10-05 A-1.pdf"] != "its picture" || files["index.csv"] == "" {
		t.Errorf("the zip has %q", files)
	}
	for _, bad := range []Filter{{Of: Selection{Seller: "a"}}, {Documents: true, Of: Selection{Min: "1,5"}}, {Documents: true, Of: Selection{Query: strings.Repeat("a", 256)}}} {
		in.Filter = bad
		if _, err := e.Create(t.Context(), w.who, in, nil); !drive.IsKind(err, drive.BadRequest) {
			t.Errorf("filter %+v: %v", bad, err)
		}
	}
}

func (t fakeDocuments) PDFs(_ context.Context, _ drive.AccountID, ids []string) (map[string]drive.NodeID, error) {
	pdfs := map[string]drive.NodeID{}
	for _, all := range t.of {
		for _, d := range all {
			if slices.Contains(ids, d.ID) && !d.PDF.IsZero() {
				pdfs[d.ID] = d.PDF
			}
		}
	}
	return pdfs, nil
}

func (t fakeDocuments) Embedded(_ context.Context, _ drive.AccountID, id, sum string) (io.ReadCloser, drive.ByteSize, error) {
	for _, all := range t.of {
		for _, d := range all {
			if d.ID == id && d.Embedded == sum && sum != "gone" {
				content := "%PDF embedded in " + id
				return io.NopCloser(strings.NewReader(content)), drive.ByteSize(len(content)), nil
			}
		}
	}
	return nil, 0, drive.Fail(drive.NotFound)
}

// An embedded PDF is exported like any other, and charged until the batch ends. A manifest cannot
// name one. A PDF whose file is deleted is a line of err.txt, and a supplement uses the PDF that
// the document has by then.
func TestEmbeddedPDFsAreExported(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put(t, "/intake/acme/b/a.xml", "the invoice")
	docs := fakeDocuments{map[string][]Document{"acme 2026-10": {
		{ID: "1", Number: "A/1", Date: "2026-10-05", Embedded: "abc"}, {ID: "2", Number: "A/2", Date: "2026-10-06", Embedded: "gone"},
	}}}
	e := w.process(w.db, "1", func(o *Options) { o.Documents = docs })
	v := w.create(t, e, Request{Folder: w.folder(t, "/intake/acme"), Filter: Filter{Documents: true, Month: "2026-10"}})
	before := w.count(t, "SELECT finished FROM ledgers WHERE account_id = ?", w.who.Account)
	w.finish(t, e)
	got := w.get(t, e, v.ID)
	if got.State != Sealed || got.Collected != 1 || got.Failed != 1 {
		t.Fatalf("it is %s with %d and %d: %s", got.State, got.Collected, got.Failed, got.Error)
	}
	if now := w.count(t, "SELECT finished FROM ledgers WHERE account_id = ?", w.who.Account); now-before != int64(len("%PDF embedded in 1")) {
		t.Errorf("it is charged %d bytes", now-before)
	}
	_, files := w.download(t, e, v.ID)
	if files["acme/2026-10-05 A-1.pdf"] != "%PDF embedded in 1" || !strings.Contains(files["err.txt"], "\n2\t2026-10-06 A-2\tmissing") {
		t.Errorf("the zip has %q", files)
	}
	docs.of["acme 2026-10"][1].PDF = w.put(t, "/intake/acme/c/a.pdf", "the late PDF")
	more, err := e.Supplement(t.Context(), w.who, v.ID, SupplementRequest{Mode: WithPrevious}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.finish(t, e)
	if _, files = w.download(t, e, more.ID); files["acme/2026-10-05 A-1.pdf"] != "%PDF embedded in 1" || files["acme/2026-10-06 A-2.pdf"] != "the late PDF" {
		t.Errorf("the supplement has %q", files)
	}
	if _, err := e.Create(t.Context(), w.who, Request{Manifest: []Item{{URL: embeddedScheme + "1/abc"}}}, nil); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("a list that names an embedded file: %v", err)
	}
	w.check(t)
}

// Documents of a month are selected by document date, each with its PDF; one without PDF is a line
// of err.txt. Schedules can select documents, too.
func TestDocumentsOfAMonth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pdf := w.put(t, "/intake/acme/b/a.pdf", "the PDF")
	docs := fakeDocuments{map[string][]Document{"acme 2026-10": {{ID: "1", Number: "A/1", Date: "2026-10-05", PDF: pdf}, {ID: "2", Number: "A/2", Date: "2026-10-06"}}}}
	e := w.process(w.db, "1", func(o *Options) { o.Documents = docs })
	v := w.create(t, e, Request{Folder: w.folder(t, "/intake/acme"), Filter: Filter{Documents: true, Month: "2026-10"}})
	w.finish(t, e)
	got := w.get(t, e, v.ID)
	if got.State != Sealed || got.Collected != 1 || got.Failed != 1 {
		t.Fatalf("it is %s with %d and %d: %s", got.State, got.Collected, got.Failed, got.Error)
	}
	_, files := w.download(t, e, v.ID)
	if files["acme/2026-10-05 A-1.pdf"] != "the PDF" || !strings.Contains(files["err.txt"], "\n2\t2026-10-06 A-2 has no PDF\tmissing\r\n") {
		t.Errorf("the zip has %q", files)
	}
	docs.of["acme 2026-10"][1].PDF = w.put(t, "/intake/acme/c/a.pdf", "the late PDF")
	more, err := e.Supplement(t.Context(), w.who, v.ID, SupplementRequest{Mode: WithPrevious}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w.finish(t, e)
	if got := w.get(t, e, more.ID); got.State != Sealed || got.Collected != 2 {
		t.Fatalf("with what is late it is %s with %d and %d", got.State, got.Collected, got.Failed)
	}
	_, files = w.download(t, e, more.ID)
	if files["acme/2026-10-05 A-1.pdf"] != "the PDF" || files["acme/2026-10-06 A-2.pdf"] != "the late PDF" {
		t.Errorf("the supplement has %q", files)
	}
	if _, err := e.Create(t.Context(), w.who, Request{Folder: w.folder(t, "/intake/acme/b"), Filter: Filter{Documents: true}}, nil); !drive.IsKind(err, drive.BadRequest) {
		t.Errorf("documents of a folder that is no source: %v", err)
	}
	if _, err := e.CreateSchedule(t.Context(), w.who, Schedule{Folder: w.folder(t, "/intake/acme"), Filter: Filter{Documents: true}}); err != nil {
		t.Error(err)
	}
}
