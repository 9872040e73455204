package envelope

import (
	"io"

	"example.org/smartdrive/internal/intake/invoice/pdf"
	"example.org/smartdrive/internal/intake/invoice/syntax"
)

// Limits bound the cost of an envelope.
type Limits struct {
	syntax.Limits // of each document

	// Unpacked bounds the bytes that the envelope and those in it unpack to. Default: the
	// function Unpacked of its size.
	Unpacked int64
	// Large is called for each document that unpacks to more than LargeDocument, before more
	// of it is read; its error ends the document. nil: it is not called.
	Large func() error
}

// LargeDocument is the size in bytes above which a document may take much memory.
const LargeDocument = 2 << 20

// Unpacked returns how many bytes an envelope of size bytes may unpack to: 16 MiB and 100 times its
// size. Invoices as XML shrink to a twentieth when they are packed.
func Unpacked(size int64) int64 { return 16<<20 + 100*size }

// opening is an open envelope together with the envelopes in it, which share one limit of unpacked
// bytes.
type opening struct {
	limits Limits
	left   int64 // bytes that may still be unpacked
}

// newOpening returns an opening of an envelope of a size.
func newOpening(size int64, limits Limits) *opening {
	if limits.Unpacked == 0 {
		limits.Unpacked = Unpacked(size)
	}
	return &opening{limits, limits.Unpacked}
}

// spend counts n unpacked bytes. It fails with a syntax.Error of kind Limit once there are more
// than the envelope may unpack to.
func (o *opening) spend(n int) error {
	if o.left -= int64(n); o.left < 0 {
		return limited("the file unpacks to more than %d bytes; allowed are 16 MiB and 100 times its size", o.limits.Unpacked)
	}
	return nil
}

// ofPDFs returns the limits of a PDF in the envelope.
func (o *opening) ofPDFs() pdf.Limits { return pdf.Limits{Spend: o.spend} }

// unpacking is a document of an envelope that is unpacked while it is read.
type unpacking struct {
	*opening
	in   io.Reader
	read int64
}

// unpack returns a reader of in, a packed document, that counts its bytes against the limit of the
// envelope. It calls Limits.Large once when the document turns out to be large.
func (o *opening) unpack(in io.Reader) io.Reader { return &unpacking{opening: o, in: in} }

// Read fails with the error of spend or of Limits.Large.
func (u *unpacking) Read(p []byte) (int, error) {
	n, err := u.in.Read(p)
	if e := u.spend(n); e != nil {
		return 0, e
	}
	before := u.read
	if u.read += int64(n); before <= LargeDocument && u.read > LargeDocument && u.limits.Large != nil {
		if e := u.limits.Large(); e != nil {
			return 0, e
		}
	}
	return n, err
}
