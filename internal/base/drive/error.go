package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind says what went wrong in the words of the contract; each head maps it to its own protocol.
// The list is closed: a test fails when a head lacks a row for one.
type Kind uint8

// The kinds. Names follow the problem codes of the native API; String returns that code.
const (
	Internal Kind = iota
	BadRequest
	BadName
	PartSize
	PartRange
	CursorInvalid
	Unauthenticated
	Forbidden
	CrossOrigin
	WrongCode
	NotFound
	NoThumbnail
	Method
	TooSlow
	NameTaken
	ParentGone
	PartDiffers
	OffsetMismatch
	PartsMissing
	WrongState
	VersionChanged
	Locked
	InProgress
	Cycle
	Gone
	LengthRequired
	Precondition
	TooLarge
	MediaType
	Range
	DigestMismatch
	KeyReused
	DigestRequired
	Rate
	TooManyOpen
	Stopping
	Unavailable
	Quota
	DiskFull
	numKinds
)

var kindCodes = [numKinds]string{
	Internal: "internal", BadRequest: "bad-request", BadName: "bad-name", PartSize: "part-size", PartRange: "part-range",
	CursorInvalid: "cursor-invalid", Unauthenticated: "unauthenticated", Forbidden: "forbidden", WrongCode: "wrong-code", NotFound: "not-found",
	CrossOrigin: "cross-origin", NoThumbnail: "no-thumbnail",
	Method: "method", TooSlow: "too-slow", NameTaken: "name-taken", ParentGone: "parent-gone", PartDiffers: "part-differs",
	OffsetMismatch: "offset-mismatch",
	PartsMissing:   "parts-missing", WrongState: "state", VersionChanged: "version-changed", Locked: "locked", InProgress: "in-progress",
	Cycle: "cycle", Gone: "gone", LengthRequired: "length-required", Precondition: "precondition", TooLarge: "too-large",
	MediaType: "media-type", Range: "range", DigestMismatch: "digest-mismatch", KeyReused: "key-reused",
	DigestRequired: "digest-required", Rate: "rate", TooManyOpen: "too-many-open", Stopping: "stopping",
	Unavailable: "unavailable", Quota: "quota", DiskFull: "disk-full",
}

// String returns the problem code.
func (k Kind) String() string {
	if k < numKinds {
		return kindCodes[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Kinds returns all kinds, for tables that must have a row for each.
func Kinds() []Kind {
	all := make([]Kind, numKinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Args are the facts of an error that a person or a program needs to act on it. Keys are the member
// names of the problem document; values must be JSON values. They are shown to clients: nothing
// internal goes in.
type Args map[string]any

// Error is the error type of the project. Kind and Args are rendered at the edge in the reader's
// language; Err is for the log and never shown.
type Error struct {
	Kind Kind
	Args Args
	Err  error
}

// Fail makes an Error from a kind and alternating names and values of its Args, as slog does:
// Fail(Quota, "needed", n).
func Fail(kind Kind, args ...any) *Error { return Wrap(nil, kind, args...) }

// Wrap is Fail with a cause.
func Wrap(err error, kind Kind, args ...any) *Error {
	e := &Error{Kind: kind, Err: err}
	if len(args) > 0 {
		e.Args = make(Args, len(args)/2)
		for i := 0; i+1 < len(args); i += 2 {
			e.Args[args[i].(string)] = args[i+1]
		}
	}
	return e
}

// Bad is the BadRequest for one field: reason is one of the Reason constants, args say what is
// allowed.
func Bad(field string, reason Reason, args ...any) *Error {
	return Fail(BadRequest, append([]any{"field", field, "reason", string(reason)}, args...)...)
}

// Reason says why a field was refused; package problem has a sentence for each in every language.
type Reason string

// The reasons a field is refused for.
const (
	Required    Reason = "required"     // it is missing
	Unknown     Reason = "unknown"      // no such field or parameter
	Malformed   Reason = "malformed"    // "expected" says the form
	OutOfRange  Reason = "out-of-range" // "min" and "max" say the range
	NotAllowed  Reason = "not-allowed"  // "allowed" lists the values
	TooLong     Reason = "too-long"     // "limit" and "sent" in bytes
	NotTogether Reason = "not-together" // "with" names the other field
	Guessable   Reason = "guessable"    // a password that is tried first
)

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.String())
	if len(e.Args) > 0 {
		fmt.Fprintf(&b, " %v", map[string]any(e.Args))
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost Error in err's chain. A cancelled or expired context is
// Unavailable; anything else that is not an Error is Internal.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Unavailable
	}
	return Internal
}

// IsKind reports whether err is not nil and its kind is one of kinds.
func IsKind(err error, kinds ...Kind) bool {
	if err == nil {
		return false
	}
	return slices.Contains(kinds, KindOf(err))
}
