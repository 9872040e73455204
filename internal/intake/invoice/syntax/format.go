package syntax

import (
	"bytes"
	"strings"

	"example.org/smartdrive/internal/intake/invoice/xmlscan"
)

// Format is a file format of invoices.
type Format uint8

// Formats.
const (
	Unknown Format = iota
	UBL            // UBL 2.1 Invoice or CreditNote
	CII            // UN/CEFACT Cross Industry Invoice, D16B and later
	Fapiao         // the XML of the Chinese fully digital invoice
	NDJSON         // the own model, one document per line
)

// String returns the code of the format, which is stored and shown.
func (f Format) String() string {
	return [...]string{"unknown", "ubl", "cii", "fapiao", "ndjson"}[f]
}

// SniffBytes is the number of leading bytes that Sniff needs: enough for a licence comment before
// the root element.
const SniffBytes = 16 << 10

// Sniff returns the format of a file from its leading bytes: by the root element and its namespace,
// or by the beginning of JSON. File names and media types are ignored. Unknown means unsupported;
// the file may still be an invoice.
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

// blanks is the white space of JSON.
const blanks = " \t\r\n"

// beginsLines reports whether text, which begins with a brace, looks like NDJSON. A malformed first
// line counts as NDJSON, so that the sender gets its error; RTF and binary files do not.
func beginsLines(text []byte) bool {
	after := bytes.TrimLeft(text[1:], blanks)
	if len(after) == 0 || after[0] == '"' || after[0] == '}' {
		return true
	}
	control := func(r rune) bool { return r < ' ' && !strings.ContainsRune(blanks, r) }
	return after[0] != '\\' && !bytes.ContainsFunc(text, control)
}

// Unread returns the Error for a file of unknown format, given its leading bytes: Refused for XML
// with a DOCTYPE or ENTITY declaration, Unsupported otherwise.
func Unread(head []byte) *Error {
	for _, declares := range []string{"<!DOCTYPE", "<!ENTITY"} {
		if before, _, found := bytes.Cut(head, []byte(declares)); found {
			return &Error{Kind: Refused, Line: 1 + bytes.Count(before, []byte{'\n'}), Text: "a DOCTYPE or another declaration"}
		}
	}
	return &Error{Kind: Unsupported, Text: Named(head, "the format of this file is not supported")}
}

// Named returns the explanation for an unsupported XML format that people mistake for an invoice,
// and other for any other file.
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
