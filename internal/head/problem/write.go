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

	"smartdrive/internal/base/drive"
)

// Noter is a ResponseWriter, or one that it wraps, that wants to know which error became the
// response: the access log says it, because the client is not told.
type Noter interface{ NoteError(err error) }

// Translator is a ResponseWriter, or one that it wraps, that maps the error of a handler to the
// error that becomes the response.
type Translator interface{ TranslateError(err error) error }

// Write answers r with err as application/problem+json. The language comes from Accept-Language,
// the request id from the response header X-Request-Id, where the server's middleware has put it.
// Nothing may have been written before.
//
// The response has a Content-Length, so that a client has all of it as soon as it is flushed, even
// while the server still takes in the rest of a rejected body.
func Write(w http.ResponseWriter, r *http.Request, err error) { WriteAs(w, r, err, Dialect{}) }

// Dialect is how a protocol other than the native API says a problem. What is zero stays as it is.
type Dialect struct {
	Status int
	Type   string
	Args   drive.Args // members besides those of the error
	// Challenge is the WWW-Authenticate of who has not logged in.
	Challenge string
	// Render makes the body. Nil: JSON.
	Render func(Document) (contentType string, body []byte)
}

// WriteAs is Write in another protocol's words.
func WriteAs(w http.ResponseWriter, r *http.Request, err error, as Dialect) {
	if t, ok := find[Translator](w); ok {
		err = t.TranslateError(err)
	}
	note(w, err)
	h := w.Header()
	d := From(err, Negotiate(r.Header.Get("Accept-Language")), h.Get("X-Request-Id"))
	d.say(as)
	body, jsonErr := json.Marshal(d)
	if jsonErr != nil { // an arg that is no JSON value: a fault of ours
		note(w, fmt.Errorf("render problem %s: %w", d.Code, jsonErr))
		d = From(nil, d.lang, d.RequestID)
		body, _ = json.Marshal(d) // strings and numbers only
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
	// A failed write means that the client is gone: there is nobody left to tell.
	_, _ = w.Write(body)
}

func (d *Document) say(as Dialect) {
	d.Status, d.Type = cmp.Or(as.Status, d.Status), cmp.Or(as.Type, d.Type)
	if len(as.Args) > 0 {
		args := make(drive.Args, len(d.Args)+len(as.Args))
		maps.Copy(args, d.Args)
		maps.Copy(args, as.Args)
		d.Args = args
	}
}

// Note tells the access log of an error that did not become the response as a whole.
func Note(w http.ResponseWriter, err error) { note(w, err) }

// note tells the innermost Noter.
func note(w http.ResponseWriter, err error) {
	if n, ok := find[Noter](w); ok {
		n.NoteError(err)
	}
}

// find returns the innermost writer that is a T, following Unwrap as http.ResponseController does.
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

func (d *Document) setHeaders(h http.Header) {
	// What the handler meant to say about the thing itself is not true of the problem.
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
	default: // no header of its own
	}
}

func list(v any) string {
	if methods, ok := v.([]string); ok {
		return strings.Join(methods, ", ")
	}
	return ""
}
