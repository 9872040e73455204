package dav

import (
	"bufio"
	"encoding/xml"
	"net/http"
	"strconv"
)

// multistatus streams a 207 response (RFC 4918 §13). It sends nothing before writeAhead bytes are
// buffered, so that an early failure can have its own status.
type multistatus struct {
	w   http.ResponseWriter
	out *bufio.Writer
	// started tells that begin was called; sent, that bytes have reached the client.
	started bool
	sent    bool
	*spelling
}

// writeAhead is how many bytes are buffered before they are sent: some 40 entries.
const writeAhead = 32 << 10

// newMultistatus returns a writer of the 207 response of c. Write elements with response, then call
// end. Nothing is sent before writeAhead bytes are buffered or end is called.
func newMultistatus(c *call) *multistatus {
	return &multistatus{w: c.w, spelling: c.view.spelling()}
}

// begin writes the start of the document at the first call.
func (m *multistatus) begin() {
	if m.started {
		return
	}
	m.started = true
	m.out = bufio.NewWriterSize(headerWriter{m}, writeAhead)
	m.text(xml.Header, m.dav(`<D:multistatus xmlns:D="DAV:"`))
	if m.sabre {
		m.text(` xmlns:s="`, sabreSpace, `" xmlns:oc="`, ownCloud, `" xmlns:nc="`, nextcloud, `"`)
	}
	m.text(">")
}

// headerWriter writes to the client and sends the response header before the first bytes.
type headerWriter struct{ m *multistatus }

// Write sends p to the client, the first time after status 207 and the response headers.
func (s headerWriter) Write(p []byte) (int, error) {
	m := s.m
	if !m.sent {
		m.sent = true
		m.w.Header().Set("Content-Type", xmlType)
		m.w.Header().Set("Cache-Control", "no-store")
		m.w.WriteHeader(http.StatusMultiStatus)
	}
	return m.w.Write(p)
}

// text writes strings that are XML already. It ignores a disconnected client: the request's context
// ends, so the next page is not read.
func (m *multistatus) text(parts ...string) {
	for _, p := range parts {
		_, _ = m.out.WriteString(p)
	}
}

// prop is a property in a response; an empty inner becomes an empty element.
type prop struct {
	name  Name
	inner string // XML
}

// response writes the response element of one URL. With minimal it omits missing properties.
func (m *multistatus) response(href string, found, missing []prop, minimal bool) {
	m.begin()
	m.openResponse(href)
	if len(found) > 0 || len(missing) == 0 || minimal {
		m.propstat(http.StatusOK, found, "")
	}
	if len(missing) > 0 && !minimal {
		m.propstat(http.StatusNotFound, missing, "")
	}
	m.closeResponse()
}

// openResponse begins the response element of one URL; closeResponse ends it.
func (m *multistatus) openResponse(href string) {
	m.text(m.dav("\n<D:response><D:href>"), href, m.dav("</D:href>"))
}

// closeResponse writes the end tag of a response element.
func (m *multistatus) closeResponse() { m.text(m.dav("</D:response>")) }

// propstat writes properties that share an HTTP status. cond names a precondition of RFC 4918 §16
// that failed, or is "". openResponse must come before it.
func (m *multistatus) propstat(status int, props []prop, cond string) {
	m.text(m.dav("<D:propstat><D:prop>"))
	for _, p := range props {
		m.prop(p)
	}
	m.text(m.dav("</D:prop><D:status>"), statusLine(status), m.dav("</D:status>"))
	if cond != "" {
		m.text(m.dav("<D:error><D:" + cond + "/></D:error>"))
	}
	m.text(m.dav("</D:propstat>"))
}

// prop writes one property element; an empty value becomes an empty element.
func (m *multistatus) prop(p prop) {
	name, declared := m.name(p.name)
	m.text("<", name, declared)
	if p.inner == "" {
		m.text("/>")
		return
	}
	if p.name.Space == "DAV:" {
		p.inner = m.dav(p.inner)
	}
	m.text(">", p.inner, "</", name, ">")
}

// end closes the document and sends all buffered bytes; without elements it sends an empty
// document. Do not call it for an incomplete listing: a client that receives no end knows that
// entries are missing.
func (m *multistatus) end() {
	m.begin()
	m.text(m.dav("\n</D:multistatus>\n"))
	_ = m.out.Flush() // fails only if the client is disconnected
}

// statusLine returns an HTTP/1.1 status line, as the element status holds it.
func statusLine(status int) string {
	return "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status)
}
