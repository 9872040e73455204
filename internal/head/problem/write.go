package problem

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// Noter may be implemented by a ResponseWriter to receive the error behind a response, for the
// access log. A writer that another one wraps is found by its method Unwrap.
type Noter interface{ NoteError(err error) }

// Translator is implemented by a ResponseWriter, or one that it wraps, to replace the error of a
// handler before it is rendered.
type Translator interface{ TranslateError(err error) error }

// Write answers r with err as application/problem+json. The language comes from Accept-Language,
// the request id from the response header X-Request-Id, which the server's middleware sets. Nothing
// may have been written before.
//
// The response has a Content-Length, so that the client has all of it once it is flushed, even
// while the server still reads the rest of a rejected body.
func Write(w http.ResponseWriter, r *http.Request, err error) { WriteAs(w, r, err, Dialect{}) }

// Dialect adapts a problem document to a protocol other than the native API. A zero field changes
// nothing; Status and Type replace those of the document.
type Dialect struct {
	Status int
	Type   string
	Args   drive.Args // additional members
	// Challenge is the WWW-Authenticate header for Unauthenticated.
	Challenge string
	// Render returns the body. Nil: JSON.
	Render func(Document) (contentType string, body []byte)
}

// WriteAs translates err with the writer's Translator, records it for the access log and sends it
// as a problem document, changed by the dialect. It writes status and body, so nothing may have
// been sent before and the handler must not write afterwards.
func WriteAs(w http.ResponseWriter, r *http.Request, err error, as Dialect) {
	if t, ok := find[Translator](w); ok {
		err = t.TranslateError(err)
	}
	note(w, err)
	h := w.Header()
	d := From(err, Negotiate(r.Header.Get("Accept-Language")), h.Get("X-Request-Id"))
	d.apply(as)
	body, jsonErr := json.Marshal(d)
	if jsonErr != nil { // a programming error: an arg has no JSON form
		note(w, fmt.Errorf("render problem %s: %w", d.Code, jsonErr))
		d = From(nil, d.lang, d.RequestID)
		body, _ = json.Marshal(d) // strings and numbers always encode
	}
	d.setHeaders(h)
	if as.Render != nil {
		var typ string
		typ, body = as.Render(d)
		h.Set("Content-Type", typ)
	}
	if as.Challenge != "" && d.kind == drive.Unauthenticated {
		h.Set("WWW-Authenticate", as.Challenge)
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(d.Status)
	// A failed write means that the client is disconnected.
	_, _ = w.Write(body)
}

// apply changes d in place as the Dialect says; its arguments are copied first, because they belong
// to the error.
func (d *Document) apply(as Dialect) {
	d.Status, d.Type = cmp.Or(as.Status, d.Status), cmp.Or(as.Type, d.Type)
	if len(as.Args) > 0 {
		args := make(drive.Args, len(d.Args)+len(as.Args))
		maps.Copy(args, d.Args)
		maps.Copy(args, as.Args)
		d.Args = args
	}
}

// Note records err for the access log without answering, such as an error after the response has
// begun. Without a Noter it does nothing.
func Note(w http.ResponseWriter, err error) { note(w, err) }

// note passes err to the outermost Noter of w, for the access log; without one it does nothing.
func note(w http.ResponseWriter, err error) {
	if n, ok := find[Noter](w); ok {
		n.NoteError(err)
	}
}

// find returns the outermost writer that is a T: w itself or the first one that Unwrap leads to, as
// http.ResponseController searches. The bool is false if there is none.
func find[T any](w http.ResponseWriter) (T, bool) {
	for {
		if found, ok := w.(T); ok {
			return found, true
		}
		u, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			var none T
			return none, false
		}
		w = u.Unwrap()
	}
}

// setHeaders sets the headers of a response with the problem, such as Retry-After and Allow. It
// removes headers that the handler has set for the resource, such as ETag and Location, because
// they do not apply to the problem.
func (d *Document) setHeaders(h http.Header) {
	// Headers that describe the resource do not apply to the problem.
	for _, name := range []string{"Etag", "Last-Modified", "Content-Range", "Content-Disposition", "Content-Encoding", "Repr-Digest", "Content-Digest", "Accept-Ranges", "Location"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Language", d.lang.Tag())
	h.Add("Vary", "Accept-Language")
	h.Set("Cache-Control", "no-store")
	if d.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(d.retry))
	}
	switch d.kind {
	case drive.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="SmartDrive"`)
	case drive.Method:
		if allow := list(d.Args["allow"]); allow != "" {
			h.Set("Allow", allow)
		}
	case drive.Range:
		if size := reflect.ValueOf(d.Args["size"]); size.IsValid() && size.CanInt() {
			h.Set("Content-Range", "bytes */"+strconv.FormatInt(size.Int(), 10))
		}
	default: // no specific header
	}
}

// list joins the strings of v with commas; "" if v is no list of strings.
func list(v any) string {
	if methods, ok := v.([]string); ok {
		return strings.Join(methods, ", ")
	}
	return ""
}
