package dav

import (
	"encoding/xml"
	"net/http"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
)

const xmlType = "application/xml; charset=utf-8"

// condition is a precondition that an answer names (RFC 4918 §16), with the status that goes with
// it.
type condition struct {
	error

	status int
	name   string // in the namespace DAV:
	inner  string // XML
}

func (c condition) Unwrap() error { return c.error }

// refuse answers with an error: a document of XML, as clients of WebDAV expect it, with the
// sentence that the native API has for it.
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

// StatusOf returns the status that an error of this package names; 0: that of its kind.
func StatusOf(err error) int {
	cond, _ := findCondition(err)
	return cond.status
}

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

// status is what a kind is called in this protocol; 0: as in the native API.
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

// render writes the body of a refusal. The second namespace is what clients of sabre/dav look for:
// they show the message.
func render(d problem.Document, cond condition) string {
	var b strings.Builder
	b.WriteString(xml.Header + `<D:error xmlns:D="DAV:" xmlns:s="http://sabredav.org/ns">`)
	if cond.name != "" {
		b.WriteString("<D:" + cond.name + ">" + cond.inner + "</D:" + cond.name + ">")
	}
	b.WriteString("<s:exception>" + escape(d.Code) + "</s:exception><s:message>" + escape(d.Title+": "+d.Detail) + "</s:message></D:error>\n")
	return b.String()
}

// quotes has the names of what package xml writes as numbers: some programs, the library webdav of
// npm among them, read the five entities that XML names, and take a tag of numbers for another one.
var quotes = strings.NewReplacer("&#34;", "&quot;", "&#39;", "&apos;")

// Escape makes text of XML. What no XML can say becomes U+FFFD.
func Escape(s string) string { return escape(s) }

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s)) // a Builder takes everything
	return quotes.Replace(b.String())
}
