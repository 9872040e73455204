package syntax

import (
	"fmt"
	"io"
	"iter"

	"example.org/smartdrive/internal/intake/invoice"
	"example.org/smartdrive/internal/intake/invoice/xmlscan"
)

// Decode returns the documents of a file, one after another. Each element is either a document or
// an error. In NDJSON an Error concerns one line, and the sequence continues. An Error of an XML
// file, or an error of the reader, is the last element. The caller owns the documents. Decode does
// not validate; package rule does.
func Decode(format Format, from io.Reader, limits Limits) iter.Seq2[*invoice.Document, error] {
	limits = limits.withDefaults()
	if format == NDJSON {
		return func(yield func(*invoice.Document, error) bool) { lines(from, limits, yield) }
	}
	return func(yield func(*invoice.Document, error) bool) { yield(decodeXML(format, from, limits)) }
}

// root describes a supported root element and its decoder.
type root struct {
	format Format
	spaces []string
	tree   func() *node
	finish func(*builder) // completes the document after the end of the root element
	space  int            // namespace of the root element, as an index of spaces from 1; 0: none
	local  string

	written invoice.Syntax
}

// roots returns all supported root elements.
func roots() []root {
	return []root{
		{UBL, ublSpaces, ublTree, (*builder).finish, spaceUBLInvoice, "Invoice", invoice.UBLSyntax},
		{UBL, ublSpaces, ublTree, (*builder).finish, spaceUBLCreditNote, "CreditNote", invoice.UBLSyntax},
		{CII, ciiSpaces, ciiTree, (*builder).finish, 1, "CrossIndustryInvoice", invoice.CIISyntax},
		{Fapiao, nil, fapiaoTree, finishFapiao, 0, "EInvoice", invoice.OwnSyntax},
	}
}

// decodeXML decodes the one document of an XML file in the format. It fails with an Error of the
// kind of the fault, or with an error of reading from.
func decodeXML(format Format, from io.Reader, limits Limits) (*invoice.Document, error) {
	var spaces []string
	var candidates []root
	for _, r := range roots() {
		if r.format == format {
			spaces, candidates = r.spaces, append(candidates, r)
		}
	}
	if len(candidates) == 0 {
		return nil, Unread(nil)
	}
	s := xmlscan.New(from, xmlscan.Limits{Bytes: limits.Bytes, Depth: limits.Depth, Attributes: limits.Attributes}, spaces...)
	defer s.Close()
	found, err := findRoot(s, candidates)
	if err != nil {
		return nil, err
	}
	b := newBuilder(limits)
	defer b.release()
	b.root = found.local
	b.doc.Written = invoice.Written{Syntax: found.written, CreditNote: found.local == "CreditNote"}
	if err := walk(s, found.tree(), b); err != nil {
		return nil, scanned(err)
	}
	if b.unsupported != "" {
		return nil, &Error{Kind: Unsupported, Text: b.unsupported + ": not supported"}
	}
	found.finish(b)
	if err := checkProfile(b.doc); err != nil {
		return nil, err
	}
	return b.doc, nil
}

// findRoot reads up to the root element and returns its description. If the element is not among
// the candidates, the error is of kind Unsupported.
func findRoot(s *xmlscan.Scanner, candidates []root) (root, error) {
	token, err := s.Next()
	if err != nil {
		return root{}, scanned(err)
	}
	if token == xmlscan.Start {
		name := s.Name()
		for _, r := range candidates {
			if r.space == name.Space && r.local == string(name.Local) {
				return r, nil
			}
		}
	}
	return root{}, &Error{Kind: Unsupported, Text: fmt.Sprintf("the root element %.60q is not supported", s.Name().Local)}
}
