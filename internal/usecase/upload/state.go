package upload

import (
	"database/sql/driver"
	"fmt"
)

// State is where an upload stands; see the diagram in the package comment.
type State uint8

// The states.
const (
	Active State = iota + 1
	Parked
	Sealing
	Reclaiming
	Done
	Gone
)

var stateNames = [...]string{
	Active: "active", Parked: "parked", Sealing: "sealing", Reclaiming: "reclaiming", Done: "done", Gone: "gone",
}

// String returns the name stored in SQL.
func (s State) String() string {
	if int(s) < len(stateNames) && s > 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// Public returns the name shown to clients: reclaiming shows as gone.
func (s State) Public() string {
	if s == Reclaiming {
		return Gone.String()
	}
	return s.String()
}

// Verifying is the public name of an upload that is active or parked while the answer to its
// challenge is checked: it takes parts as before, and may become done by itself.
const Verifying = "verifying"

// Open reports whether the upload may still become done.
func (s State) Open() bool { return s == Active || s == Parked || s == Sealing }

// Value implements driver.Valuer.
func (s State) Value() (driver.Value, error) { return s.String(), nil }

// Scan implements sql.Scanner.
func (s *State) Scan(src any) error {
	text, ok := src.(string)
	if b, isBytes := src.([]byte); isBytes {
		text, ok = string(b), true
	}
	for i, name := range stateNames {
		if ok && name == text && i > 0 {
			*s = State(i)
			return nil
		}
	}
	return fmt.Errorf("%v is no upload state", src)
}
