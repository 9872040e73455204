package ingest

import (
	"archive/zip"
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// TestInvoicesInPDFsAndArchives processes invoices in a PDF and in an archive.
func TestInvoicesInPDFsAndArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	facturX := invoicetest.PDF{Streams: true, Packed: true}.Embed("factur-x.xml", invoicetest.CII(doc("A-1", 5)))
	scan := invoicetest.PDF{}.Embed("", nil)
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, raw := range map[string][]byte{"1.xml": invoicetest.Fapiao(invoicetest.Chinese(1)), "OFD.xml": []byte("<ofd/>")} {
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
	declared := newParcel("acme").add("a.pdf", 1, facturX).add("b.ofd", 1, archive.Bytes()).add("c.pdf", 1, scan)
	silent := newParcel("acme").add("a.pdf", 0, facturX).add("c.pdf", 0, scan)
	picture := newParcel("acme").lines("a.ndjson", doc("A-2", 6)).add("a.pdf", 0, facturX)
	for _, p := range []*parcel{declared, silent, picture} {
		w.send(t, p)
		w.finish(t, in)
	}
	wantSums(t, w.bundle(t, declared), "done 3=2+1+0+0")
	wantSums(t, w.bundle(t, silent), "done 0=0+0+0+0")
	wantSums(t, w.bundle(t, picture), "done 1=1+0+0+0")
	if n := w.count(t, "SELECT COUNT(*) FROM documents WHERE number = 'A-1' AND pdf_id = file_id"); n != 1 {
		t.Error("the PDF is not the picture of the invoice that it carries")
	}
	var told []string
	for _, p := range []*parcel{declared, silent} {
		records, err := in.Records(t.Context(), w.who, w.bundle(t, p).ID, Reject, "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			told = append(told, r.Member+" "+*r.Reason)
		}
	}
	if diff := cmp.Diff([]string{"c.pdf unsupported", "a.pdf surplus"}, told); diff != "" {
		t.Error(diff)
	}
	w.check(t)
}

// TestADamagedArchiveIsItsOwnFault checks that an archive with offsets outside of itself is a
// damaged document, not a disk error: the bundle ends, and its other documents are accepted.
func TestADamagedArchiveIsItsOwnFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	in := w.process(w.db, "1")
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	f, err := z.Create("1.xml")
	if err == nil {
		_, err = f.Write(invoicetest.Fapiao(invoicetest.Chinese(1)))
	}
	if err = errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	raw := archive.Bytes()
	at := bytes.LastIndex(raw, []byte("PK\x01\x02")) + 42 // offset of the member's header, APPNOTE 4.3.12
	outside, before := bytes.Clone(raw), bytes.Clone(raw)
	copy(outside[at:], []byte{0, 0, 0xff, 0})
	copy(before[bytes.LastIndex(raw, []byte("PK\x05\x06"))+16:], []byte{0, 0, 0, 0x7f})
	p := newParcel("acme").lines("a.ndjson", doc("A-1", 5)).add("b.zip", 1, outside).add("c.zip", 1, before)
	w.send(t, p)
	w.finish(t, in)
	wantSums(t, w.bundle(t, p), "done 3=1+2+0+0")
	w.check(t)
}
