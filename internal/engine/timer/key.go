package timer

import (
	"strings"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/drive"
)

// Kind is the purpose of a timer. Each kind has its own handler, concurrency limit and place in the
// queue. The names are stored, and administrators type them, so the list is closed. The numbers are
// never stored.
type Kind uint8

// The kinds. The engine uses only their names.
const (
	Park      Kind = iota + 1 // an upload has been idle
	Abandon                   // a parked upload was not resumed
	Unlink                    // the bytes of a released blob may be deleted
	Operation                 // a long operation continues with its next step
	Purge                     // a batch of expired rows is deleted
	numKinds
)

// kindNames are the stored names of the kinds.
var kindNames = [numKinds]string{Park: "park", Abandon: "abandon", Unlink: "unlink", Operation: "operation", Purge: "purge"}

// Kinds returns all kinds in the order of their numbers.
func Kinds() []Kind {
	all := make([]Kind, 0, numKinds-1)
	for k := Kind(1); k < numKinds; k++ {
		all = append(all, k)
	}
	return all
}

// Known reports whether k is one of the declared kinds.
func (k Kind) Known() bool { return k > 0 && k < numKinds }

// String returns the name of the kind, or "unknown".
func (k Kind) String() string {
	if k.Known() {
		return kindNames[k]
	}
	return "unknown"
}

// Key identifies a timer by its kind and the id of the watched object. Any drive.ID can be assigned
// to ID.
type Key struct {
	Kind Kind
	ID   [16]byte
}

// String returns "park/0198c0de-...".
func (k Key) String() string { return k.Kind.String() + "/" + uuid.UUID(k.ID).String() }

// ParseKey parses the form kind/id that Key.String writes. Other input fails with BadRequest.
func ParseKey(s string) (Key, error) {
	name, id, _ := strings.Cut(s, "/")
	for _, kind := range Kinds() {
		if kindNames[kind] != name {
			continue
		}
		v, err := drive.ParseID[[16]byte](id)
		if err != nil {
			return Key{}, badKey(s)
		}
		return Key{Kind: kind, ID: v}, nil
	}
	return Key{}, badKey(s)
}

// badKey returns the BadRequest error for s, a string that is not a timer key.
func badKey(s string) error {
	return drive.BadField("key", drive.Malformed, "expected", "kind/uuid", "kinds", kindNames[1:], "sent", s)
}

// MarshalText returns the form kind/id that Key.String writes. It does not fail.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText parses the form kind/id that Key.String writes. Other input fails with BadRequest
// and leaves k unchanged.
func (k *Key) UnmarshalText(b []byte) error {
	v, err := ParseKey(string(b))
	if err != nil {
		return err
	}
	*k = v
	return nil
}
