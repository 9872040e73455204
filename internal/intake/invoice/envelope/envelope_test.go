package envelope

import (
	"archive/zip"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/syntax"
	"example.org/smartdrive/internal/testkit/depth"
)

// decodeAll returns the documents and errors of an envelope.
func decodeAll(raw []byte) (docs []*invoice.Document, errs []error) {
	for d, err := range Decode(Sniff(raw), bytes.NewReader(raw), int64(len(raw)), Limits{}) {
		if err != nil {
			errs = append(errs, err)
		} else {
			docs = append(docs, d)
		}
	}
	return docs, errs
}

// archive returns a zip; members alternate between name and content.
func archive(t *testing.T, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i+1 < len(members); i += 2 {
		f, err := w.Create(members[i])
		if err == nil {
			_, err = io.WriteString(f, members[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestInvoicesAreFound(t *testing.T) {
	t.Parallel()
	cii, fapiao := string(invoicetest.CII(invoicetest.New(1))), string(invoicetest.Fapiao(invoicetest.Chinese(2)))
	for name, c := range map[string]struct {
		in   []byte
		want int
	}{
		"Factur-X":              {invoicetest.PDF{}.Embed("factur-x.xml", []byte(cii)), 1},
		"XRechnung, packed":     {invoicetest.PDF{Streams: true, Packed: true}.Embed("xrechnung.xml", []byte(cii)), 1},
		"another name":          {invoicetest.PDF{Associated: true}.Embed("Rechnung 7.XML", []byte(cii)), 1},
		"OFD":                   {archive(t, "OFD.xml", "<ofd/>", "Doc_0/Document.xml", "<d/>", "Doc_0/Attachs/original_invoice.xml", fapiao), 1},
		"a zip of several":      {archive(t, "1.xml", fapiao, "2.xml", cii, "1.pdf", "%PDF-"), 2},
		"a zip within, unread":  {archive(t, "1.zip", string(archive(t, "1.xml", fapiao)), "2.xml", fapiao), 1},
		"a PDF without invoice": {invoicetest.PDF{}.Embed("a.txt", []byte("a")), 0},
		"an archive without":    {archive(t, "a.xml", "<a/>"), 0},
	} {
		docs, errs := decodeAll(c.in)
		n, err := Count(Sniff(c.in), bytes.NewReader(c.in), int64(len(c.in)))
		if len(docs) != c.want || n != c.want || err != nil || (c.want == 0) != (len(errs) == 1) {
			t.Errorf("%s: %d documents, %d counted, errors %v %v", name, len(docs), n, errs, err)
		}
		for _, err := range errs {
			if !errors.Is(err, syntax.ErrUnsupported) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestUnsupportedFormatIsNamed(t *testing.T) {
	t.Parallel()
	cii := string(invoicetest.CII(invoicetest.New(1)))
	profile := func(name string) []byte {
		from := strings.Index(cii, "urn:cen.eu:en16931:2017")
		return []byte(cii[:from] + name + cii[from+strings.IndexByte(cii[from:], '<'):])
	}
	for want, in := range map[string][]byte{
		"booking-aid: the profile MINIMUM":  invoicetest.PDF{}.Embed("factur-x.xml", profile("urn:factur-x.eu:1p0:minimum")),
		"booking-aid: the profile BASIC WL": invoicetest.PDF{}.Embed("factur-x.xml", profile("urn:factur-x.eu:1p0:basicwl")),
		"unsupported: this is ZUGFeRD 1":    invoicetest.PDF{}.Embed("ZUGFeRD-invoice.xml", []byte(`<a xmlns="urn:ferd:CrossIndustryDocument:invoice:1p0"/>`)),
		"unsupported: the profile":          invoicetest.PDF{}.Embed("factur-x.xml", profile("urn:ferd:CrossIndustryDocument:invoice:1p0:extended")),
		"unsupported: this is an order":     invoicetest.PDF{}.Embed("order-x.xml", []byte(`<rsm:SCRDMCCBDACIOMessageStructure xmlns:rsm="urn:un:unece:uncefact:data:SCRDMCCBDACIOMessageStructure:100"/>`)),
		"malformed: the archive is damaged": archive(t, "1.xml", cii)[:200],
		"refused: the PDF is encrypted":     bytes.Replace(invoicetest.PDF{}.Embed("factur-x.xml", []byte(cii)), []byte("/Root 1 0 R"), []byte("/Encrypt 9 0 R /Root 1 0 R"), 1),
	} {
		if _, errs := decodeAll(in); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), want) {
			t.Errorf("%v, want %s", errs, want)
		}
	}
}

func TestArchivesAreBounded(t *testing.T) {
	t.Parallel()
	one := archive(t, "1.xml", "<a/>")
	end := bytes.LastIndex(one, []byte("PK\x05\x06"))
	many := bytes.Clone(one)
	many[end+10], many[end+11] = 0xff, 0x7f
	second := bytes.Clone(one)
	copy(second[end+16:], "\xff\xff\xff\xff")
	bomb := archive(t, "1.xml", "<EInvoice>"+strings.Repeat(" ", 1<<20)+"</EInvoice>")
	for name, in := range map[string][]byte{"many members": many, "a second record": second} {
		if _, errs := decodeAll(in); len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), "limit") {
			t.Errorf("%s: %v", name, errs)
		}
	}
	for _, err := range Decode(Zip, bytes.NewReader(bomb), int64(len(bomb)), Limits{Limits: syntax.Limits{Bytes: 1 << 10}}) {
		if err == nil || !strings.HasPrefix(err.Error(), "limit") {
			t.Errorf("a bomb: %v", err)
		}
	}
}

// TestEndRecordBoundsDirectory checks that the end record of an archive bounds its directory, and
// that members do not overlap. Otherwise a small file could exhaust memory or time.
func TestEndRecordBoundsDirectory(t *testing.T) {
	t.Parallel()
	one := archive(t, "1.xml", "<EInvoice>"+strings.Repeat("0123456789", 100)+"</EInvoice>")
	end, at := bytes.LastIndex(one, []byte("PK\x05\x06")), bytes.Index(one, []byte("PK\x01\x02"))
	with := func(times, said int) []byte {
		size := (end - at) * said
		in := slices.Concat(one[:at], bytes.Repeat(one[at:end], times), one[end:])
		tail := in[len(in)-22:]
		tail[8], tail[9], tail[10], tail[11] = byte(times), byte(times>>8), byte(times), byte(times>>8)
		tail[12], tail[13], tail[14] = byte(size), byte(size>>8), byte(size>>16)
		return in
	}
	for name, in := range map[string][]byte{"longer than said": with(1<<16+1, 1), "one member, twenty names": with(20, 20)} {
		if docs, errs := decodeAll(in); len(docs) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "damaged") {
			t.Errorf("%s: %d documents, %v", name, len(docs), errs)
		}
	}
	if docs, errs := decodeAll(with(1, 1)); len(docs) != 1 || errs != nil {
		t.Errorf("a good one: %d documents, %v", len(docs), errs)
	}
}

// TestErrorsOfTheReaderStayThemselves checks that an error of the reader is returned as such.
func TestErrorsOfTheReaderStayThemselves(t *testing.T) {
	t.Parallel()
	gone := errors.New("the disk is gone")
	for _, raw := range [][]byte{
		invoicetest.PDF{}.Embed("factur-x.xml", invoicetest.CII(invoicetest.New(1))), archive(t, "1.xml", string(invoicetest.CII(invoicetest.New(1)))),
	} {
		failed := 0
		for calls := range 20 {
			in := &failing{in: bytes.NewReader(raw), left: calls, err: gone}
			for _, err := range Decode(Sniff(raw), in, int64(len(raw)), Limits{}) {
				if err != nil && !errors.Is(err, gone) {
					t.Errorf("after %d reads: %v", calls, err)
				}
				if err != nil {
					failed++
				}
			}
		}
		if failed == 0 {
			t.Error("nothing failed")
		}
	}
}

// TestErrorsOfTheReaderOfAMailStayThemselves checks that an error of the reader at any offset is
// not reported as a damaged e-mail.
func TestErrorsOfTheReaderOfAMailStayThemselves(t *testing.T) {
	t.Parallel()
	gone := errors.New("the disk is gone")
	xml := string(invoicetest.CII(invoicetest.New(1)))
	for _, raw := range []string{letter("a.xml", xml), letter("a.zip", string(archive(t, "1.xml", xml)))} {
		for size := 0; size < len(raw); size += depth.Pick(211, 67, 3) {
			in := until{strings.NewReader(raw), int64(size), gone}
			var errs []error
			for _, err := range Decode(Mail, in, int64(len(raw)), Limits{}) {
				errs = append(errs, err)
			}
			if len(errs) == 0 || !errors.Is(errs[len(errs)-1], gone) {
				t.Fatalf("%d of %d bytes can be read: %v", size, len(raw), errs)
			}
			if _, err := Count(Mail, in, int64(len(raw))); !errors.Is(err, gone) {
				t.Fatalf("%d of %d bytes can be read, and counting says: %v", size, len(raw), err)
			}
			if err := Extract(in, int64(len(raw)), "", io.Discard); !errors.Is(err, gone) {
				t.Fatalf("%d of %d bytes can be read, and taking a file out says: %v", size, len(raw), err)
			}
		}
	}
}

// until is a file whose reads fail with err beyond size.
type until struct {
	in   io.ReaderAt
	size int64
	err  error
}

// ReadAt implements io.ReaderAt.
func (u until) ReadAt(p []byte, off int64) (int, error) {
	if off+int64(len(p)) <= u.size {
		return u.in.ReadAt(p, off)
	}
	n, err := u.in.ReadAt(p[:max(0, u.size-off)], off)
	if err == nil {
		err = u.err
	}
	return n, err
}

// failing is a file whose reads fail with err after a number of calls.
type failing struct {
	in   io.ReaderAt
	left int
	err  error
}

// ReadAt implements io.ReaderAt.
func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.left--; f.left < 0 {
		return 0, f.err
	}
	return f.in.ReadAt(p, off)
}
