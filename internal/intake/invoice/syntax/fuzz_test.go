package syntax

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"smartdrive/internal/intake/invoice"
	"smartdrive/internal/intake/invoice/invoicetest"
	"smartdrive/internal/intake/invoice/rule"
)

// fuzzed reads anything as one format. It must end, with documents that can be judged and hashed,
// and that are themselves after they were written in the own model and read again.
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
		again, errs := decodeAll(NDJSON, bytes.NewReader(invoicetest.NDJSON(d)), Limits{})
		if len(errs) > 0 {
			t.Fatalf("%s is not read again: %v", invoicetest.NDJSON(d), errs)
		}
		if diff := cmp.Diff([]*invoice.Document{d}, again); diff != "" || d.Hash() != again[0].Hash() {
			t.Fatalf("(-first +again)\n%s", diff)
		}
	}
}

func fuzz(f *testing.F, format Format, write func(*invoice.Document) []byte, seeds ...*invoice.Document) {
	f.Helper()
	for _, seed := range seeds {
		f.Add(write(seed))
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
