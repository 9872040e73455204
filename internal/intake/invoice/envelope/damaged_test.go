package envelope

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"example.org/smartdrive/internal/intake/invoice/invoicetest"
	"example.org/smartdrive/internal/intake/invoice/syntax"
	"example.org/smartdrive/internal/testkit/depth"
)

// TestADamagedFileIsADamagedDocument changes each byte of a file, and truncates the file at each
// byte. Every error must be a *syntax.Error: any other one would count as a disk error, be retried,
// and finally reject the whole bundle.
func TestADamagedFileIsADamagedDocument(t *testing.T) {
	t.Parallel()
	cii, fapiao := string(invoicetest.CII(invoicetest.New(1))), string(invoicetest.Fapiao(invoicetest.Chinese(2)))
	packed := archive(t, "1.xml", fapiao, "2.xml", cii)
	for name, good := range map[string][]byte{
		"zip": packed, "PDF": invoicetest.PDF{}.Embed("factur-x.xml", []byte(cii)), "packed PDF": invoicetest.PDF{Streams: true, Packed: true}.Embed("factur-x.xml", []byte(cii)),
		"mail": []byte(letter("a.zip", string(packed))),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, seen := Sniff(good), map[string]bool{}
			look := func(what string, raw []byte) {
				for _, err := range errorsOf(kind, raw) {
					if text := err.Error(); !seen[text] {
						seen[text] = true
						t.Errorf("%s: %v", what, err)
					}
				}
			}
			for at := range good {
				if at > 100 && at < len(good)-400 && at%depth.Pick(32, 8, 1) != 0 { // skip most of the invoice's text
					continue
				}
				for _, with := range []byte{0, 0xff, good[at] ^ 1, good[at] ^ 0x80} {
					raw := bytes.Clone(good)
					raw[at] = with
					look(fmt.Sprintf("byte %d is %#x", at, with), raw)
				}
				look(fmt.Sprintf("cut at %d", at), good[:at])
			}
		})
	}
}

// errorsOf returns the errors of reading a file that are neither *syntax.Error nor ErrNoFile.
func errorsOf(kind Kind, raw []byte) (odd []error) {
	add := func(err error) {
		if _, ours := errors.AsType[*syntax.Error](err); err != nil && !ours && !errors.Is(err, ErrNoFile) {
			odd = append(odd, err)
		}
	}
	for _, err := range Decode(kind, bytes.NewReader(raw), int64(len(raw)), Limits{}) {
		add(err)
	}
	_, err := Count(kind, bytes.NewReader(raw), int64(len(raw)))
	add(err)
	add(Extract(bytes.NewReader(raw), int64(len(raw)), "", io.Discard))
	return odd
}
