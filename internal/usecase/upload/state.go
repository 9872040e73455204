package upload

import (
	"database/sql/driver"
	"fmt"
)

// State is the stage of an upload's life; the package comment has the diagram.
type State uint8

// The states of an upload.
const (
	Active State = iota + 1
	Parked
	Sealing
	Reclaiming
	Done
	Gone
)

// stateNames holds the name of each State in the database; index 0 is no state.
var stateNames = [...]string{
	Active: "active", Parked: "parked", Sealing: "sealing", Reclaiming: "reclaiming", Done: "done", Gone: "gone",
}

// String returns the name stored in the database, or "state-N" for an unknown state.
func (s State) String() string {
	if int(s) < len(stateNames) && s > 0 {
		return stateNames[s]
	}
	return fmt.Sprintf("state-%d", uint8(s))
}

// Public returns the name shown to clients: "gone" for Reclaiming, else String.
func (s State) Public() string {
	if s == Reclaiming {
		return Gone.String()
	}
	return s.String()
}

// Verifying is the state shown to clients for an active or parked upload whose challenge answer is
// still being checked. The upload accepts parts meanwhile and may become done without a further
// request.
const Verifying = "verifying"

// Open reports whether the upload may still become done: active, parked or sealing.
func (s State) Open() bool { return s == Active || s == Parked || s == Sealing }

// Value returns the state's name, as the column of the database holds it (driver.Valuer). It never
// fails.
func (s State) Value() (driver.Value, error) { return s.String(), nil }

// Scan sets s from the state's name, a string or []byte (sql.Scanner). It fails for anything else
// and leaves s unchanged then.
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
