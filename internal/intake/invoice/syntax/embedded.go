package syntax

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"io"

	"example.org/smartdrive/internal/intake/invoice/xmlscan"
)

// embedded hashes the embedded file in the current element without storing it. It fails with an
// Error of kind BadValue for invalid base64.
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

// maxFiles is the maximum number of embedded files per document that Extract reads.
const maxFiles = 10_000

// Extract reads an XML invoice and returns the SHA-256, in hex, of each embedded file that is valid
// and not empty. It writes the content of the n-th of these files, from 0, to the writer; a
// negative n writes nothing. Memory use does not depend on the size of a file. After an error, an
// Error of the kind of the fault or one of reading or writing, sums is nil.
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

// Elements that hold embedded files, with their namespaces.
var (
	fileSpaces = []string{
		"urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2",
		"urn:un:unece:uncefact:data:standard:ReusableAggregateBusinessInformationEntity:100",
	}
	fileElements = []string{"EmbeddedDocumentBinaryObject", "AttachmentBinaryObject"}
)

// unbase64 decodes and hashes base64 text, and forwards the decoded bytes. White space is ignored.
// The caller must call close at the end.
type unbase64 struct {
	sum   hash.Hash
	to    io.Writer // nil: the bytes are not forwarded
	size  int64
	group [4]byte
	n     int
	ended bool // the last group was padded, so no more text may follow
	buf   []byte
}

// Write decodes a piece of base64 text. A text that is not base64 gives an Error of kind BadValue.
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

// read reads the current element to its end, and reports whether its text is valid base64. The
// error comes from the XML or from the destination writer.
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

// decode decodes the group of four characters and appends its bytes to buf. It fails with errBase64
// for invalid characters or a group after padding.
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

// errBase64 returns the Error of kind BadValue for invalid base64.
func errBase64() error { return &Error{Kind: BadValue, Text: "an embedded file is not valid base64"} }

// close fails with errBase64 if the text ended within a group of four characters. Call it after the
// last character.
func (u *unbase64) close() error {
	if u.n != 0 {
		return errBase64()
	}
	return nil
}
