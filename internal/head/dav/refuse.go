package dav

import (
	"encoding/xml"
	"net/http"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// xmlType is the Content-Type of XML responses.
const xmlType = "application/xml; charset=utf-8"

// condition is an error that carries the precondition that failed (RFC 4918 §16), for the body of
// the response, and may override the HTTP status. An empty name adds no precondition; a zero status
// leaves the status of the wrapped error.
type condition struct {
	error

	status int
	name   string // local name in the namespace DAV:
	inner  string // XML
}

// Unwrap returns the error that the condition wraps.
func (c condition) Unwrap() error { return c.error }

// refuse answers the request with err as an XML document, as WebDAV clients expect. The message is
// the text that the native API would send.
func (c *call) refuse(err error) {
	cond, _ := findCondition(err)
	if c.r.Method == http.MethodOptions || drive.IsKind(err, drive.Unauthenticated) {
		setClasses(c.w.Header())
	}
	problem.WriteAs(c.w, c.r, err, problem.Dialect{
		Status: c.status(err, cond), Challenge: `Basic realm="SmartDrive", charset="UTF-8"`,
		Render: func(d problem.Document) (string, []byte) {
			return xmlType, []byte(c.view.spelling().dav(render(d, cond)))
		},
	})
}

// StatusOf returns the HTTP status with which this package overrides that of the error's kind; 0 if
// it does not. It ignores the statuses that WebDAV prescribes for some kinds.
func StatusOf(err error) int {
	cond, _ := findCondition(err)
	return cond.status
}

// findCondition returns the outermost condition in the chain of err; false if there is none. It
// does not descend into joined errors.
func findCondition(err error) (found condition, ok bool) {
	for err != nil {
		if found, ok = err.(condition); ok { //nolint:errorlint // the loop unwraps
			return found, true
		}
		u, more := err.(interface{ Unwrap() error })
		if !more {
			return condition{}, false
		}
		err = u.Unwrap()
	}
	return condition{}, false
}

// status returns the status of an error in this protocol; 0 for that of the native API.
func (c *call) status(err error, cond condition) int {
	if cond.status != 0 {
		return cond.status
	}
	switch drive.KindOf(err) {
	case drive.ParentGone: // RFC 4918 §9.3.1, §9.7.1, §9.8.5
		return http.StatusConflict
	case drive.Cycle: // §9.8.5: the same resource, or below itself
		return http.StatusForbidden
	case drive.NameTaken:
		if c.r.Method == "MKCOL" { // §9.3.1
			return http.StatusMethodNotAllowed
		}
		return http.StatusPreconditionFailed
	case drive.VersionChanged:
		return http.StatusPreconditionFailed
	default:
		return 0
	}
}

// render returns the XML body of an error response with the spelling of this package; see
// spelling.dav. It contains the precondition of cond if that has a name. Clients of sabre/dav show
// the message in the second namespace.
func render(d problem.Document, cond condition) string {
	var b strings.Builder
	b.WriteString(xml.Header + `<D:error xmlns:D="DAV:" xmlns:s="http://sabredav.org/ns">`)
	if cond.name != "" {
		b.WriteString("<D:" + cond.name + ">" + cond.inner + "</D:" + cond.name + ">")
	}
	b.WriteString("<s:exception>" + escape(d.Code) + "</s:exception><s:message>" + escape(d.Title+": "+d.Detail) + "</s:message></D:error>\n")
	return b.String()
}

// quotes replaces the numeric entities that package xml writes by named ones. Some programs, such
// as the npm library webdav, decode only the five named entities and would misread an ETag.
var quotes = strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;")

// Escape returns s as XML text. Characters that XML cannot express become U+FFFD.
func Escape(s string) string { return escape(s) }

// escape returns s escaped for XML text and attribute values. Characters that XML cannot express
// become U+FFFD.
func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder does not fail
	return quotes.Replace(b.String())
}
