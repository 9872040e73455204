package problem

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"

	"smartdrive/internal/base/drive"
)

// Document is an RFC 9457 problem document. In JSON, Args are members beside the others.
type Document struct {
	Type      string     // "/problems/<code>": the page about it
	Title     string     // what every problem of this kind has in common
	Status    int        // the HTTP status
	Detail    string     // what happened this time, for people
	Code      string     // the kind, for programs
	RequestID string     // under which the server's log knows it; may be empty
	Args      drive.Args // the facts, for programs; for the keys see API.md

	kind  drive.Kind
	retry int // seconds
	lang  Lang
}

// From renders err. What is not a drive.Error is Internal, but for the errors by which package http
// says that a body is too large. Of an Internal error nothing is shown: it may hold paths, SQL or
// secrets.
func From(err error, l Lang, requestID string) Document {
	kind, args := facts(err)
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

// Path returns the path of the page about a kind, which is also the type of its problems.
func Path(kind drive.Kind) string { return "/problems/" + kind.String() }

// Status returns the HTTP status of a kind.
func Status(kind drive.Kind) int { return rowOf(kind).status }

func facts(err error) (drive.Kind, drive.Args) {
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

// seconds reads the arg retry_after: whole seconds, at least 1.
func seconds(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return max(n, 1), true
	case int64:
		return int(min(max(n, 1), math.MaxInt32)), true
	}
	return 0, false
}

func rowOf(kind drive.Kind) *row {
	for i := range rows {
		if rows[i].kind == kind {
			return &rows[i]
		}
	}
	return &rows[0] // Internal; a test fails when a kind has no row of its own
}

// MarshalJSON implements json.Marshaler. An arg never takes the place of a member that RFC 9457
// defines.
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
