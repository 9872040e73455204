package syntax

import (
	"bytes"
	"strings"

	"smartdrive/internal/intake/invoice/xmlscan"
)

// Format is a syntax of invoices. String returns the code that is stored and shown.
type Format uint8

// The formats.
const (
	Unknown Format = iota
	UBL            // UBL 2.1 Invoice or CreditNote
	CII            // UN/CEFACT Cross Industry Invoice, D16B and later
	Fapiao         // the XML of the Chinese fully digital invoice
	NDJSON         // the own model, one document in a line
)

// String returns the code of the format.
func (f Format) String() string {
	return [...]string{"unknown", "ubl", "cii", "fapiao", "ndjson"}[f]
}

// SniffBytes is how much of the head of a member Sniff wants to see: room for a licence in a
// comment before the root element.
const SniffBytes = 16 << 10

// Sniff says which format begins like this. It looks at the root element and its namespace, or for
// the beginning of JSON; names and media types of files play no part. What is Unknown is not
// supported; it may still be an invoice.
func Sniff(head []byte) Format {
	if text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), blanks); len(text) > 0 && text[0] == '{' && beginsLines(text) {
		return NDJSON
	}
	for _, r := range roots() {
		s := xmlscan.New(bytes.NewReader(head), xmlscan.Limits{Bytes: 4 * SniffBytes, Depth: 1, Attributes: 64}, r.spaces...)
		_, err := findRoot(s, []root{r})
		s.Close()
		if err == nil {
			return r.format
		}
	}
	return Unknown
}

// blanks are what may stand between the tokens of JSON.
const blanks = " \t\r\n"

// beginsLines reports whether text, which begins with a brace, is of lines of JSON. A first line
// that is wrong is one of them, so that its sender hears of it; RTF and what is no text are other
// files.
func beginsLines(text []byte) bool {
	after := bytes.TrimLeft(text[1:], blanks)
	if len(after) == 0 || after[0] == '"' || after[0] == '}' {
		return true
	}
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune(blanks, r) }
	return after[0] != '\\' && !bytes.ContainsFunc(text, control)
}

// Unread says why a file of no format that is known, which begins with head, is not read: XML that
// declares its own type is refused, whatever it is.
func Unread(head []byte) *Error {
	for _, declares := range []string{"<!DOCTYPE", "<!ENTITY"} {
		if before, _, found := bytes.Cut(head, []byte(declares)); found {
			return &Error{Kind: Refused, Line: 1 + bytes.Count(before, []byte{'\n'}), Text: "a DOCTYPE or another declaration"}
		}
	}
	return &Error{Kind: Unsupported, Text: Named(head, "the format of this file is not supported")}
}

// Named says what an XML is that is not read and that people take for an invoice; of another one
// it returns other.
func Named(head []byte, other string) string {
	for _, n := range [...]struct{ part, name string }{
		{"urn:ferd:CrossIndustryDocument:invoice:1p0", "this is ZUGFeRD 1, which was replaced in 2019 and is not read; ask for ZUGFeRD 2, Factur-X or XRechnung"},
		{"CrossIndustryOrder", "this is an order (Order-X), not an invoice"},
		{"SCRDMCCBDACIOMessageStructure", "this is an order (Order-X), not an invoice"},
	} {
		if bytes.Contains(head, []byte(n.part)) {
			return n.name
		}
	}
	return other
}
