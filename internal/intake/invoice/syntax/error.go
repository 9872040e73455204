package syntax

import (
	"errors"
	"fmt"
)

// Kind is the reason why a document cannot be read.
type Kind uint8

// Kinds of errors.
const (
	Malformed   Kind = iota // not well-formed XML or JSON, truncated, or not the structure of its format
	Refused                 // a construct that no invoice needs and attackers use: DOCTYPE, entities
	Limit                   // exceeds Limits
	BadValue                // an invalid date or number
	Unsupported             // unknown to SmartDrive; the document may be valid
	BookingAid              // a Factur-X profile without lines, which is not an invoice of EN 16931
)

// String returns the code of the kind, which is stored and shown.
func (k Kind) String() string {
	return [...]string{"malformed", "refused", "limit", "bad-value", "unsupported", "booking-aid"}[k]
}

// KindNamed returns the kind with a code, and whether there is one.
func KindNamed(code string) (Kind, bool) {
	for k := Malformed; k <= BookingAid; k++ {
		if k.String() == code {
			return k, true
		}
	}
	return 0, false
}

// Error is the reason why a document cannot be read. Text is an English sentence for its sender and
// contains no internals of the server.
type Error struct {
	Kind Kind
	Line int    // line in the file, from 1; 0: unknown or meaningless
	Text string // for example "cbc:IssueDate: not a date"
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Kind, e.Text)
	}
	return fmt.Sprintf("%s: line %d: %s", e.Kind, e.Line, e.Text)
}

// Is makes every Error of kind Unsupported match ErrUnsupported in errors.Is.
func (e *Error) Is(target error) bool { return target == ErrUnsupported && e.Kind == Unsupported }

// ErrUnsupported matches, with errors.Is, every Error of kind Unsupported.
var ErrUnsupported = errors.New("unsupported")
