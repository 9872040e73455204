package ingest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// enclosed is a file to embed in an invoice.
type enclosed struct {
	name, kind string
	content    []byte
}

// sum returns the SHA-256 of the content in hex.
func (e enclosed) sum() string {
	sum := sha256.Sum256(e.content)
	return hex.EncodeToString(sum[:])
}

// enclose embeds files into an invoice that write encodes, as base64 in lines of 76 letters.
func enclose(t testing.TB, write func(*invoice.Document) []byte, d *invoice.Document, files ...enclosed) []byte {
	t.Helper()
	for _, f := range files {
		d.Attachments = append(d.Attachments, invoice.Attachment{ID: f.name})
	}
	raw := string(write(d))
	for _, f := range files {
		var text strings.Builder
		for line := range slices.Chunk([]byte(base64.StdEncoding.EncodeToString(f.content)), 76) {
			text.Write(append(line, '\n'))
		}
		object := fmt.Sprintf(`<cac:Attachment><cbc:EmbeddedDocumentBinaryObject mimeCode=%q filename=%q>%s</cbc:EmbeddedDocumentBinaryObject></cac:Attachment>`, f.kind, f.name, text.String())
		end := "</cac:AdditionalDocumentReference>"
		if !strings.Contains(raw, end) {
			object = fmt.Sprintf(`<ram:AttachmentBinaryObject mimeCode=%q filename=%q>%s</ram:AttachmentBinaryObject>`, f.kind, f.name, text.String())
			end = "</ram:AdditionalReferencedDocument>"
		}
		at := strings.Index(raw, ">"+f.name+"<")
		if at < 0 {
			t.Fatalf("no reference %q in %s", f.name, raw)
		}
		at += strings.Index(raw[at:], end)
		raw = raw[:at] + object + raw[at:]
	}
	return []byte(raw)
}

// TestEmbeddedFilesCanBeHad checks that embedded files are returned byte for byte, from every
// format, and that the first embedded PDF is the picture of a document without another PDF.
func TestEmbeddedFilesCanBeHad(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	table := enclosed{"hours.csv", "text/csv", []byte("a;b\n1;2\n")}
	picture := enclosed{"picture.pdf", "application/pdf", bytes.Repeat([]byte("%PDF-1.7 the picture\n"), 20_000)}
	other := enclosed{"other.pdf", "application/pdf", []byte("%PDF-1.4 another")}
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, raw := range map[string][]byte{"OFD.xml": []byte("<ofd/>"), "1.xml": enclose(t, invoicetest.UBL, doc("A-3", 7), picture)} {
		f, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	p := newParcel("acme").
		add("a.xml", 1, enclose(t, invoicetest.UBL, doc("A-1", 5), table, picture, other)).
		add("b.xml", 1, enclose(t, invoicetest.CII, doc("A-2", 6), table, other)).
		add("c.zip", 1, archive.Bytes()).
		add("d.pdf", 1, invoicetest.PDF{}.Embed("factur-x.xml", enclose(t, invoicetest.CII, doc("A-4", 8), picture))).
		add("e.xml", 1, invoicetest.UBL(doc("A-5", 9)))
	w.send(t, p)
	w.finish(t, in)
	wantSums(t, w.bundle(t, p), "done 5=5+0+0+0")

	ids, pictures := map[string]drive.DocumentID{}, map[string]string{}
	err := in.Each(t.Context(), w.who.Account, Filter{}, func(d Document) error {
		ids[d.Number], pictures[d.Number] = d.ID, d.EmbeddedPDF()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for number, want := range map[string]string{"A-1": picture.sum(), "A-2": other.sum(), "A-3": picture.sum(), "A-4": "", "A-5": ""} {
		if pictures[number] != want {
			t.Errorf("the embedded picture of %s is %q, not %q", number, pictures[number], want)
		}
	}
	for number, files := range map[string][]enclosed{"A-1": {table, picture, other}, "A-2": {table, other}, "A-3": {picture}, "A-4": {picture}} {
		for _, f := range files {
			a, err := EnclosedOf(in).Open(t.Context(), w.who.Account, ids[number], f.sum())
			if err != nil {
				t.Errorf("%s of %s: %v", f.name, number, err)
				continue
			}
			got, err := io.ReadAll(a)
			if err != nil || !bytes.Equal(got, f.content) || a.Name != f.name || a.Type != f.kind || int(a.Size) != len(f.content) {
				t.Errorf("%s of %s: %d bytes, %q %q %d: %v", f.name, number, len(got), a.Name, a.Type, a.Size, err)
			}
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	ann, bob := w.who.Account, drive.NewID[drive.AccountID]()
	for what, ask := range map[string]func() (*Attachment, error){
		"another file":       func() (*Attachment, error) { return EnclosedOf(in).Open(t.Context(), ann, ids["A-2"], picture.sum()) },
		"an invoice without": func() (*Attachment, error) { return EnclosedOf(in).Open(t.Context(), ann, ids["A-5"], picture.sum()) },
		"another account":    func() (*Attachment, error) { return EnclosedOf(in).Open(t.Context(), bob, ids["A-1"], picture.sum()) },
	} {
		if _, err := ask(); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestEmbeddedFileReadIsAbandoned checks that closing or cancelling in the middle of a file
// leaves no goroutine behind. If the file of the document is replaced, its embedded file is
// NotFound, until the file is restored.
func TestEmbeddedFileReadIsAbandoned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	picture := enclosed{"picture.pdf", "application/pdf", bytes.Repeat([]byte("%PDF-1.7 the picture\n"), 50_000)}
	raw := enclose(t, invoicetest.UBL, doc("A-1", 5), picture)
	p := newParcel("acme").add("a.xml", 1, raw)
	w.send(t, p)
	w.finish(t, in)
	var id drive.DocumentID
	if err := w.db.QueryRow(t.Context(), "SELECT id FROM documents").Scan(&id); err != nil {
		t.Fatal(err)
	}
	some := make([]byte, 100)
	a, err := EnclosedOf(in).Open(t.Context(), w.who.Account, id, picture.sum())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(a, some); err != nil {
		t.Fatal(err)
	}
	if err := a.Close(); err != nil { // waits for the extracting goroutine
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if a, err = EnclosedOf(in).Open(ctx, w.who.Account, id, picture.sum()); err != nil {
		t.Fatal(err)
	}
	cancel()
	if _, err := io.Copy(io.Discard, a); err == nil {
		t.Error("a cancelled one came to its end")
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	w.put(t, p.path("a.xml"), invoicetest.UBL(doc("A-1", 5)))
	if _, err := EnclosedOf(in).Open(t.Context(), w.who.Account, id, picture.sum()); !drive.IsKind(err, drive.NotFound) {
		t.Errorf("of a file that was replaced: %v", err)
	}
	w.put(t, p.path("a.xml"), raw)
	if a, err = EnclosedOf(in).Open(t.Context(), w.who.Account, id, picture.sum()); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(a); err != nil || !bytes.Equal(got, picture.content) {
		t.Errorf("%d bytes: %v", len(got), err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
