package timer

import (
	"strings"

	"github.com/google/uuid"

	"smartdrive/internal/base/drive"
)

// Kind says what a timer is for; each has its own handler, its own concurrency and its own place in
// the queue. The list is closed because the names are stored and typed by administrators; the
// numbers are never stored.
type Kind uint8

// The kinds. The engine knows nothing about them but their names.
const (
	Park      Kind = iota + 1 // an upload has gone quiet
	Abandon                   // a parked upload was not taken up again
	Unlink                    // the bytes of a released blob may go
	Operation                 // a long operation continues
	Purge                     // a batch of old things is dropped
	numKinds
)

var kindNames = [numKinds]string{Park: "park", Abandon: "abandon", Unlink: "unlink", Operation: "operation", Purge: "purge"}

// Kinds returns all kinds.
func Kinds() []Kind {
	all := make([]Kind, 0, numKinds-1)
	for k := Kind(1); k < numKinds; k++ {
		all = append(all, k)
	}
	return all
}

// Known reports whether k is one of the kinds.
func (k Kind) Known() bool { return k > 0 && k < numKinds }

func (k Kind) String() string {
	if k.Known() {
		return kindNames[k]
	}
	return "unknown"
}

// Key names a timer: what it is for, and the id of what it watches (any drive.ID can be assigned to
// ID).
type Key struct {
	Kind Kind
	ID   [16]byte
}

// String returns "park/0198c0de-...".
func (k Key) String() string { return k.Kind.String() + "/" + uuid.UUID(k.ID).String() }

// ParseKey reads the form that String writes.
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

func badKey(s string) error {
	return drive.Bad("key", drive.Malformed, "expected", "kind/uuid", "kinds", kindNames[1:], "sent", s)
}

// MarshalText implements encoding.TextMarshaler.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *Key) UnmarshalText(b []byte) error {
	v, err := ParseKey(string(b))
	if err != nil {
		return err
	}
	*k = v
	return nil
}
