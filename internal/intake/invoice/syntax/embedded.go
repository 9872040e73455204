package syntax

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"

	"smartdrive/internal/intake/invoice/xmlscan"
)

// embedded reads an embedded file without keeping it.
func (b *builder) embedded(s *xmlscan.Scanner, n *node) error {
	b.ref.embedded = true
	into := unbase64{sum: sha256.New()}
	if err := s.ReadAll(&into); err != nil {
		return err
	}
	if err := into.close(); err != nil {
		return err
	}
	if into.size > 0 {
		b.ref.attachment.Size = into.size
		b.ref.attachment.SHA256 = hex.EncodeToString(into.sum.Sum(nil))
	}
	return b.close(n)
}

// maxFiles is how many embedded files of one document Extract looks at.
const maxFiles = 10_000

// Extract reads an invoice as XML to its end, writes the content of its n-th embedded file to to (a
// negative n: of none), and returns the SHA-256 of each of them, empty ones apart, in hex. It takes
// as little memory for a large file as for a small one.
func Extract(from io.Reader, limits Limits, n int, to io.Writer) (sums []string, err error) {
	limits = limits.withDefaults()
	s := xmlscan.New(from, xmlscan.Limits{Bytes: limits.Bytes, Depth: limits.Depth, Attributes: limits.Attributes}, fileSpaces...)
	defer s.Close()
	for len(sums) < maxFiles {
		token, err := s.Next()
		if err != nil {
			return nil, scanned(err)
		}
		if token == xmlscan.EOF {
			break
		}
		if name := s.Name(); token != xmlscan.Start || name.Space <= 0 || string(name.Local) != fileElements[name.Space-1] {
			continue
		}
		into := unbase64{sum: sha256.New()}
		if n == len(sums) {
			into.to = to
		}
		good, err := into.read(s)
		if err != nil {
			return nil, err
		}
		if good && into.size > 0 {
			sums = append(sums, hex.EncodeToString(into.sum.Sum(nil)))
		}
	}
	return sums, nil
}

// The elements that hold embedded files, and their namespaces.
var (
	fileSpaces = []string{
		"urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
		"urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
	}
	fileElements = []string{"EmbeddedDocumentBinaryObject", "AttachmentBinaryObject"}
)

// unbase64 hashes what base64 stands for, and passes it on. Spaces between groups are allowed.
type unbase64 struct {
	sum   hash.Hash
	to    io.Writer // nil: nobody wants it
	size  int64
	group [4]byte
	n     int
	ended bool // the last group was padded
	buf   []byte
}

func (u *unbase64) Write(text []byte) (int, error) {
	u.buf = u.buf[:0]
	for _, c := range text {
		if c <= ' ' {
			continue
		}
		u.group[u.n] = c
		if u.n++; u.n == 4 {
			if err := u.decode(); err != nil {
				return 0, err
			}
		}
	}
	u.size += int64(len(u.buf))
	u.sum.Write(u.buf)
	if u.to != nil {
		if _, err := u.to.Write(u.buf); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// read reads the element that has started to its end, and says whether its text is base64. The
// error is that of the XML, or of whom it is passed on to.
func (u *unbase64) read(s *xmlscan.Scanner) (good bool, err error) {
	good = true
	for depth := s.Depth(); s.Depth() >= depth; {
		token, err := s.Next()
		if err != nil {
			return false, scanned(err)
		}
		if token == xmlscan.Text && good {
			_, err = u.Write(s.Text())
		}
		if err != nil && u.to != nil {
			return false, err
		}
		good = good && err == nil && token != xmlscan.Start
	}
	return good && u.close() == nil, nil
}

func (u *unbase64) decode() error {
	u.n = 0
	if u.ended {
		return errBase64()
	}
	var out [3]byte
	n, err := base64.StdEncoding.Decode(out[:], u.group[:])
	if err != nil {
		return errBase64()
	}
	u.ended = n < 3
	u.buf = append(u.buf, out[:n]...)
	return nil
}

func errBase64() error { return &Error{Kind: BadValue, Text: "an embedded file is not valid base64"} }

func (u *unbase64) close() error {
	if u.n != 0 {
		return errBase64()
	}
	return nil
}
