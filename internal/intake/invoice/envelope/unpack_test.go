package envelope

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
)

// padded returns an invoice with so many blanks in it, which shrink to a thousandth.
func padded(blanks int) string {
	return strings.Replace(string(invoicetest.UBL(invoicetest.New(1))), "<cbc:ID>", strings.Repeat(" ", blanks)+"<cbc:ID>", 1)
}

// TestAnEnvelopeUnpacksToABound checks that all files in an envelope, and in the envelopes attached
// to it, unpack to a bound together, and that the refusal says which.
func TestAnEnvelopeUnpacksToABound(t *testing.T) {
	t.Parallel()
	const part = 10 << 20 // three are above what the files below may unpack to: 20 MiB or so
	bomb := archive(t, "a.xml", padded(part), "b.xml", padded(part), "c.xml", padded(part))
	half := string(archive(t, "a.xml", padded(part)))
	packed := string(invoicetest.PDF{Streams: true, Packed: true}.Embed("factur-x.xml", []byte(padded(part))))
	for name, in := range map[string][]byte{
		"archive":                    bomb,
		"archives in an e-mail":      []byte(letter("a.zip", half, "b.zip", half, "c.zip", half)),
		"PDFs in an e-mail":          []byte(letter("a.pdf", packed, "b.pdf", packed, "c.pdf", packed)),
		"a PDF":                      invoicetest.PDF{Streams: true, Packed: true}.Embed("factur-x.xml", []byte(padded(3*part))),
		"an e-mail within an e-mail": []byte(forwarded(letter("a.zip", half, "b.zip", half, "c.zip", half))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			docs, errs := decodeAll(in)
			if len(docs) > 2 || len(errs) == 0 || !strings.Contains(errs[0].Error(), "allowed are 16 MiB and 100 times its size") {
				t.Errorf("%d documents, errors %v", len(docs), errs)
			}
		})
	}
	if docs, errs := decodeAll(archive(t, "a.xml", padded(part))); len(docs) != 1 || errs != nil {
		t.Errorf("within the bound: %d documents, %v", len(docs), errs)
	}
	if err := Extract(bytes.NewReader(bomb), int64(len(bomb)), "none", io.Discard); !errors.Is(err, ErrNoFile) {
		t.Errorf("a file that the archive does not have: %v", err)
	}
}
