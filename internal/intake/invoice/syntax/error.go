package syntax

import (
	"errors"
	"fmt"
)

// Kind says what is wrong with a document that cannot be read. String returns the code that is
// stored and shown.
type Kind uint8

// The kinds.
const (
	Malformed   Kind = iota // not well-formed XML or JSON, truncated, or not the structure of its format
	Refused                 // what no invoice needs and attackers use: DOCTYPE, entities
	Limit                   // larger, deeper or longer than Limits allow
	BadValue                // a date or number that is none
	Unsupported             // not known here; never the document's fault
	BookingAid              // a profile of Factur-X without lines, which is not an invoice of EN 16931
)

// String returns the code of the kind.
func (k Kind) String() string {
	return [...]string{"malformed", "refused", "limit", "bad-value", "unsupported", "booking-aid"}[k]
}

// KindNamed returns the kind of a code.
func KindNamed(code string) (Kind, bool) {
	for k := Malformed; k <= BookingAid; k++ {
		if k.String() == code {
			return k, true
		}
	}
	return 0, false
}

// Error says why a document was not read. Text is one English sentence for its sender, without
// anything of the server.
type Error struct {
	Kind Kind
	Line int    // where in the member, from 1; 0 when that says nothing
	Text string // such as: cbc:IssueDate: not a date
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.Kind, e.Text)
	}
	return fmt.Sprintf("%s: line %d: %s", e.Kind, e.Line, e.Text)
}

// Is makes every Error of kind Unsupported match ErrUnsupported.
func (e *Error) Is(target error) bool { return target == ErrUnsupported && e.Kind == Unsupported }

// ErrUnsupported is what errors.Is finds in an Error of kind Unsupported.
var ErrUnsupported = errors.New("unsupported")
