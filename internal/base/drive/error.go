package drive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind is the kind of an Error, independent of a protocol; each head maps kinds to its protocol.
// The list is closed: a test fails if a head lacks a mapping.
type Kind uint8

// The kinds, named after the problem codes of the native API.
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

// kindCodes holds the problem code of each kind.
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

// String returns the problem code of the native API, such as "not-found"; "kind-N" for an unknown
// number.
func (k Kind) String() string {
	if k < numKinds {
		return kindCodes[k]
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

// Kinds returns all kinds, for tests of tables that map each kind.
func Kinds() []Kind {
	all := make([]Kind, numKinds)
	for i := range all {
		all[i] = Kind(i)
	}
	return all
}

// Args are the facts of an error that a person or program needs to react. Keys are member names of
// the problem document; values must be JSON values. Clients see them, so they must not contain
// internals.
type Args map[string]any

// Error is the error type of the project. Kind and Args are rendered for the client, in its
// language. Err is the cause; it is logged and never shown.
type Error struct {
	Kind Kind
	Args Args
	Err  error
}

// Fail returns an Error with a kind and Args from alternating names and values: Fail(Quota,
// "needed", n). It panics if a name is not a string.
func Fail(kind Kind, args ...any) *Error { return Wrap(nil, kind, args...) }

// Wrap returns an error of the given kind and arguments with the cause err, which may be nil.
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

// BadField returns a BadRequest for one field. args are alternating names and values that describe
// what is allowed.
func BadField(field string, reason Reason, args ...any) *Error {
	return Fail(BadRequest, append([]any{"field", field, "reason", string(reason)}, args...)...)
}

// Reason says why a field was rejected. Package problem has a sentence for each in every language.
type Reason string

// The reasons. The comments name the Args that belong to each.
const (
	Required   Reason = "required"     // the field is missing
	Unknown    Reason = "unknown"      // no such field or parameter
	Malformed  Reason = "malformed"    // wrong form; "expected" describes the form
	OutOfRange Reason = "out-of-range" // "min" and "max" are the limits
	NotAllowed Reason = "not-allowed"  // "allowed" lists the values
	TooLong    Reason = "too-long"     // "limit" and "sent" are in bytes
	// TooManyChars is for texts that people write: "limit" and "sent" are in characters.
	TooManyChars Reason = "too-many-characters"
	NotTogether  Reason = "not-together" // "with" names the other field
	Guessable    Reason = "guessable"    // a password that attackers try first
)

// Error returns kind, Args and cause, for the log.
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

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// KindOf returns the kind of the outermost Error in err's chain. A cancelled or expired context is
// Unavailable. Any other error is Internal, and so is nil.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Unavailable
	}
	return Internal
}

// IsKind reports whether err is not nil and KindOf(err) is one of kinds. An error without a kind
// counts as Internal, a cancelled or expired context as Unavailable.
func IsKind(err error, kinds ...Kind) bool {
	if err == nil {
		return false
	}
	return slices.Contains(kinds, KindOf(err))
}
