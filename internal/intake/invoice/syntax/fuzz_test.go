package syntax

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/rule"
)

// fuzzed decodes arbitrary bytes as one format. Decoding must terminate. The documents must be
// valid input of validation and hashing, and survive encoding and decoding in the own model.
func fuzzed(t *testing.T, format Format, in []byte) {
	for d, err := range Decode(format, bytes.NewReader(in), Limits{Bytes: 1 << 20, Kept: 1 << 18, Items: 1000}) {
		if err != nil {
			var bad *Error
			if !errors.As(err, &bad) || bad.Text == "" {
				t.Fatalf("no error of a document: %v", err)
			}
			continue
		}
		rule.Validate(d)
		if format == UBL || format == CII {
			extracted(t, d, in)
		}
		again, errs := decodeAll(NDJSON, bytes.NewReader(invoicetest.NDJSON(d)), Limits{})
		if len(errs) > 0 {
			t.Fatalf("%s is not read again: %v", invoicetest.NDJSON(d), errs)
		}
		if diff := cmp.Diff([]*invoice.Document{d}, again); diff != "" || d.Hash() != again[0].Hash() {
			t.Fatalf("(-first +again)\n%s", diff)
		}
	}
}

// extracted fails the test unless each embedded file of a document can be extracted.
func extracted(t *testing.T, d *invoice.Document, in []byte) {
	t.Helper()
	sums, err := Extract(bytes.NewReader(in), Limits{Bytes: 1 << 20}, -1, nil)
	if err != nil {
		t.Fatalf("the embedded files are not found: %v", err)
	}
	for _, a := range d.Attachments {
		if a.Size == 0 {
			continue
		}
		at := slices.Index(sums, a.SHA256)
		if at < 0 {
			t.Fatalf("%q is not found", a.Name)
		}
		sum := sha256.New()
		if _, err := Extract(bytes.NewReader(in), Limits{Bytes: 1 << 20}, at, sum); err != nil || hex.EncodeToString(sum.Sum(nil)) != a.SHA256 {
			t.Fatalf("%q comes out as something else: %v", a.Name, err)
		}
	}
}

// enclosing returns a writer that embeds files into the output of write.
func enclosing(write func(*invoice.Document) []byte) func(*invoice.Document) []byte {
	return func(d *invoice.Document) []byte {
		in := write(d)
		for before, object := range map[string]string{
			"<cac:Attachment>":                 `<cbc:EmbeddedDocumentBinaryObject mimeCode="application/pdf" filename="a.pdf">JVBERi0xLjQ=</cbc:EmbeddedDocumentBinaryObject>`,
			"<ram:TypeCode>916</ram:TypeCode>": `<ram:AttachmentBinaryObject mimeCode="text/csv" filename="a.csv">YTti</ram:AttachmentBinaryObject>`,
		} {
			in = bytes.ReplaceAll(in, []byte(before), []byte(before+object))
		}
		return in
	}
}

// fuzz runs fuzzed, with documents encoded by write as seeds.
func fuzz(f *testing.F, format Format, write func(*invoice.Document) []byte, seeds ...*invoice.Document) {
	f.Helper()
	for _, seed := range seeds {
		f.Add(write(seed))
		f.Add(enclosing(write)(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) { fuzzed(t, format, in) })
}

func FuzzUBL(f *testing.F) {
	fuzz(f, UBL, invoicetest.UBL, invoicetest.Full(1), invoicetest.New(7), invoicetest.New(8))
}

func FuzzCII(f *testing.F) {
	fuzz(f, CII, invoicetest.CII, invoicetest.Full(1), invoicetest.New(7), invoicetest.New(8))
}

func FuzzFapiao(f *testing.F) {
	fuzz(f, Fapiao, invoicetest.Fapiao, invoicetest.Chinese(1), invoicetest.Chinese(2))
}

func FuzzNDJSON(f *testing.F) {
	fuzz(f, NDJSON, func(d *invoice.Document) []byte { return invoicetest.NDJSON(d) }, invoicetest.Full(1), invoicetest.New(7), invoicetest.Chinese(1))
}
