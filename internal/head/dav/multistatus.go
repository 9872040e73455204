package dav

import (
	"bufio"
	"encoding/xml"
	"net/http"
	"strconv"
)

// multistatus writes a 207 as it comes to be (RFC 4918 §13). Nothing is sent before writeAhead
// bytes are there, so that what fails until then has a status of its own.
type multistatus struct {
	w       http.ResponseWriter
	out     *bufio.Writer
	started bool
	sent    bool
	*spelling
}

// writeAhead is how many bytes are gathered before they are sent: some 40 entries.
const writeAhead = 32 << 10

func newMultistatus(c *call) *multistatus {
	return &multistatus{w: c.w, spelling: c.view.spelling()}
}

func (m *multistatus) begin() {
	if m.started {
		return
	}
	m.started = true
	m.out = bufio.NewWriterSize(sender{m}, writeAhead)
	m.text(xml.Header, m.dav(`<D:multistatus xmlns:D="DAV:"`))
	if m.sabre {
		m.text(` xmlns:s="`, sabreSpace, `" xmlns:oc="`, ownCloud, `" xmlns:nc="`, nextcloud, `"`)
	}
	m.text(">")
}

// sender is the other end of the buffer.
type sender struct{ m *multistatus }

func (s sender) Write(p []byte) (int, error) {
	m := s.m
	if !m.sent {
		m.sent = true
		m.w.Header().Set("Content-Type", xmlType)
		m.w.Header().Set("Cache-Control", "no-store")
		m.w.WriteHeader(http.StatusMultiStatus)
	}
	return m.w.Write(p)
}

// text writes what is XML already. That the client has gone is seen by nobody: the next page is not
// read for one who has, since the request's context ends.
func (m *multistatus) text(parts ...string) {
	for _, p := range parts {
		_, _ = m.out.WriteString(p)
	}
}

// prop is a property of an answer.
type prop struct {
	name  Name
	inner string // XML
}

// response writes what is known of one address, each status with its properties.
func (m *multistatus) response(href string, found, missing []prop, minimal bool) {
	m.begin()
	m.open(href)
	if len(found) > 0 || len(missing) == 0 || minimal {
		m.propstat(http.StatusOK, found, "")
	}
	if len(missing) > 0 && !minimal {
		m.propstat(http.StatusNotFound, missing, "")
	}
	m.shut()
}

// open begins the response of one address, and shut ends it.
func (m *multistatus) open(href string) {
	m.text(m.dav("\n<D:response><D:href>"), href, m.dav("</D:href>"))
}

func (m *multistatus) shut() { m.text(m.dav("</D:response>")) }

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

// end writes the end. Without it an XML parser knows that something is missing.
func (m *multistatus) end() {
	m.begin()
	m.text(m.dav("\n</D:multistatus>\n"))
	_ = m.out.Flush() // it fails only when the client is gone
}

func statusLine(status int) string {
	return "HTTP/1.1 " + strconv.Itoa(status) + " " + http.StatusText(status)
}
