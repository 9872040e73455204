package problem

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"

	"example.org/smartdrive/internal/base/drive"
)

// Document is an RFC 9457 problem document: the description of an error for a client. In JSON, Args
// are additional members. From creates it.
type Document struct {
	Type      string     // "/problems/<code>": path of the page about it
	Title     string     // summary of the kind
	Status    int        // HTTP status
	Detail    string     // what happened this time, for people
	Code      string     // the kind, for programs
	RequestID string     // id of the request in the server's log; may be empty
	Args      drive.Args // facts for programs; API.md lists the keys

	kind  drive.Kind
	retry int // Retry-After in seconds; 0: none
	lang  Lang
}

// From returns the problem document of err in a language. An error that is not a drive.Error gets
// the kind of drive.KindOf, usually Internal; package http's error for a body that is too large
// becomes TooLarge. Details of an Internal error are omitted, because they may hold paths, SQL or
// secrets. requestID may be "".
func From(err error, l Lang, requestID string) Document {
	kind, args := kindAndArgs(err)
	r := rowOf(kind)
	d := Document{
		Type:      Path(kind),
		Title:     r.title.in(l),
		Status:    r.status,
		Detail:    r.sentence(args, l),
		Code:      kind.String(),
		RequestID: requestID,
		Args:      args,
		kind:      kind,
		retry:     r.retry,
		lang:      l,
	}
	if after, ok := seconds(args["retry_after"]); ok {
		d.retry = after
	}
	return d
}

// Path returns the path of the page about a kind, which is also its problem type.
func Path(kind drive.Kind) string { return "/problems/" + kind.String() }

// Status returns the HTTP status that problems of a kind have; 500 for an unknown kind.
func Status(kind drive.Kind) int { return rowOf(kind).status }

// kindAndArgs returns the kind of err and the arguments that clients may see. drive.Internal and
// foreign errors have nil arguments.
func kindAndArgs(err error) (drive.Kind, drive.Args) {
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return drive.TooLarge, drive.Args{"limit": tooLarge.Limit}
	}
	var e *drive.Error
	if !errors.As(err, &e) {
		return drive.KindOf(err), nil
	}
	if e.Kind == drive.Internal {
		return drive.Internal, nil
	}
	return e.Kind, e.Args
}

// seconds converts the value of the arg retry_after, a number of seconds, to an int of at least 1.
// ok is false for anything but an int or int64.
func seconds(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return max(n, 1), true
	case int64:
		return int(min(max(n, 1), math.MaxInt32)), true
	}
	return 0, false
}

// rowOf returns the row of a kind; the row of drive.Internal for an unknown kind.
func rowOf(kind drive.Kind) *row {
	for i := range rows {
		if rows[i].kind == kind {
			return &rows[i]
		}
	}
	return &rows[0] // Internal; a test verifies that every kind has a row
}

// MarshalJSON encodes the document with its Args as further members. Args never replace the members
// that RFC 9457 defines. It fails if an arg has no JSON form.
func (d Document) MarshalJSON() ([]byte, error) {
	members := make(map[string]any, len(d.Args)+6)
	maps.Copy(members, d.Args)
	delete(members, "instance")
	members["type"], members["title"], members["status"] = d.Type, d.Title, d.Status
	members["detail"], members["code"] = d.Detail, d.Code
	if delete(members, "request_id"); d.RequestID != "" {
		members["request_id"] = d.RequestID
	}
	return json.Marshal(members)
}
