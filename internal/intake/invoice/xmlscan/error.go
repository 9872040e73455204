package xmlscan

import "fmt"

// Kind is the kind of a defect in a document.
type Kind uint8

// Kinds of errors.
const (
	Malformed Kind = iota // not well-formed, or truncated
	Refused               // a DOCTYPE or an entity
	Limit                 // exceeds Limits
	Charset               // an unknown encoding
)

// Error reports why and where scanning stopped. Errors of the underlying reader are returned
// unchanged.
type Error struct {
	Kind Kind
	Line int // line in the document, from 1
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

// fail returns an Error of the kind at the current line.
func (s *Scanner) fail(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Line: s.line, Text: fmt.Sprintf(format, args...)}
}
