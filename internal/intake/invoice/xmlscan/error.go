package xmlscan

import "fmt"

// Kind says what is wrong with a document.
type Kind uint8

// The kinds.
const (
	Malformed Kind = iota // not well-formed, or truncated
	Refused               // a DOCTYPE, an entity
	Limit                 // beyond Limits
	Charset               // an encoding that is not known here
)

// Error says why a document was not read further, and where. Errors of the reader underneath are
// returned as they are.
type Error struct {
	Kind Kind
	Line int // from 1
	Text string
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Text) }

func (s *Scanner) fail(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Line: s.line, Text: fmt.Sprintf(format, args...)}
}
