package dav_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/engine/sqldb/sqldbtest"
	"example.org/smartdrive/internal/head/dav"
)

// race is a request and a competitor, which runs after the request has read its preconditions and
// before the request's transaction. There are a file a, an old file x and a folder d.
type race struct {
	name       string
	request    []string // as Site.Do takes it, without the prefix
	competitor []string
	meets      int // the competitor's status
	want       int // that of the request
	left       string
}

const setColour = `<D:propertyupdate xmlns:D="DAV:"><D:set><D:prop><x:colour xmlns:x="urn:x">red</x:colour></D:prop></D:set></D:propertyupdate>`

func to(name string, more ...string) []string {
	return append([]string{"Destination: /dav/files/" + name}, more...)
}

func with(line string, rest ...string) []string { return append([]string{line}, rest...) }

func races() []race {
	return []race{
		{"move and move", with("MOVE a", to("b")...), with("MOVE a", to("c")...), 201, 404, "c=one x=old"},
		{"delete and move", with("DELETE a"), with("MOVE a", to("c")...), 201, 404, "c=one x=old"},
		{"move and delete", with("MOVE a", to("b")...), with("DELETE a"), 204, 404, "x=old"},
		{"copy and move", with("COPY a", to("b")...), with("MOVE a", to("c")...), 201, 404, "c=one x=old"},
		{"move to a free name and put", with("MOVE a", to("b", "Overwrite: F")...), with("PUT b", "If-None-Match: *", "", "two"), 201, 412, "a=one b=two x=old"},
		{"copy to a free name and put", with("COPY a", to("b", "Overwrite: F")...), with("PUT b", "If-None-Match: *", "", "two"), 201, 412, "a=one b=two x=old"},
		{"copy of a folder to a free name and put", with("COPY d", to("b", "Overwrite: F")...), with("PUT b", "", "two"), 201, 412, "a=one b=two x=old"},
		{"put of a free name and move", with("PUT b", "If-None-Match: *", "", "two"), with("MOVE a", to("b", "Overwrite: F")...), 201, 412, "b=one x=old"},
		{"move over a file and delete of it", with("MOVE a", to("x")...), with("DELETE x"), 204, 201, "x=one"},
		{"move over a file and put of it", with("MOVE a", to("x")...), with("PUT x", "", "new"), 204, 204, "x=one"},
		{"move over a file and folder in its place", with("MOVE a", to("x")...), with("MOVE d", to("x")...), 204, 204, "x=one"},
		{"move over what is new", with("MOVE a", to("b")...), with("PUT b", "", "new"), 201, 204, "b=one x=old"},
		{"copy over what is new", with("COPY a", to("b")...), with("PUT b", "", "new"), 201, 204, "a=one b=one x=old"},
		{"mkcol and put", with("MKCOL b"), with("PUT b", "", "new"), 201, 405, "a=one b=new x=old"},
		{"proppatch and move", with("PROPPATCH a", "", setColour), with("MOVE a", to("c")...), 201, 404, "c=one x=old"},
		{"delete and lock", with("DELETE a"), with("LOCK a", "", exclusive), 200, 423, "a=one x=old"},
		{"move and lock", with("MOVE a", to("b")...), with("LOCK a", "", exclusive), 200, 423, "a=one x=old"},
		{"move over a file and lock of it", with("MOVE a", to("x")...), with("LOCK x", "", exclusive), 200, 423, "a=one x=old"},
		{"copy over a file and lock of it", with("COPY a", to("x")...), with("LOCK x", "", exclusive), 200, 423, "a=one x=old"},
		{"copy over a folder and lock in it", with("COPY a", to("d")...), with("LOCK d/in", "", exclusive), 201, 423, "a=one x=old"},
		{"put and lock", with("PUT a", "", "mine"), with("LOCK a", "", exclusive), 200, 423, "a=one x=old"},
		{"put of several parts and lock", with("PUT a", "", strings.Repeat("m", 5<<20)), with("LOCK a", "", exclusive), 200, 423, "a=one x=old"},
		{"proppatch and lock", with("PROPPATCH a", "", setColour), with("LOCK a", "", exclusive), 200, 423, "a=one x=old"},
		{"put and lock of the folder", with("PUT d/new", "", "mine"), with("LOCK d", "Depth: 0", "", exclusive), 200, 423, "a=one x=old"},
		{"mkcol and lock of the folder", with("MKCOL d/new"), with("LOCK d", "Depth: 0", "", exclusive), 200, 423, "a=one x=old"},
		{"move and lock of the folder", with("MOVE a", to("d/a")...), with("LOCK d", "Depth: 0", "", exclusive), 200, 423, "a=one x=old"},
		{"copy and lock of the folder", with("COPY a", to("d/a")...), with("LOCK d", "Depth: 0", "", exclusive), 200, 423, "a=one x=old"},
		{"copy of a folder and lock of the folder", with("COPY d/e", to("d/f")...), with("LOCK d", "Depth: 0", "", exclusive), 200, 423, "a=one x=old"},
		{"lock and lock", with("LOCK a", "", exclusive), with("LOCK a", "", exclusive), 200, 423, "a=one x=old"},
		{"lock and move", with("LOCK a", "", exclusive), with("MOVE a", to("c")...), 201, 201, "a= c=one x=old"},
	}
}

// raceSite is a site with a gate before its transactions.
type raceSite struct {
	*stack
	gate *sqldbtest.Gate
}

func newRaceSite(t *testing.T) raceSite {
	t.Helper()
	s := raceSite{stack: newStack(t)}
	s.Do(t, "PUT /dav/files/a", "", "one").Want(t, http.StatusCreated)
	s.Do(t, "PUT /dav/files/x", "", "old").Want(t, http.StatusCreated)
	s.Do(t, "MKCOL /dav/files/d").Want(t, http.StatusCreated)
	s.Do(t, "MKCOL /dav/files/d/e").Want(t, http.StatusCreated)
	s.gate = sqldbtest.NewGate(s.DB)
	return s
}

// send sends a request of a race.
func (s raceSite) send(t *testing.T, r []string) int {
	t.Helper()
	return s.Do(t, strings.Replace(r[0], " ", " /dav/files/", 1), r[1:]...).Status
}

// meet sends a request and runs the competitor after the request has read its preconditions: when
// its transaction begins or, for PUT, when the body is read, because concurrent PUTs share a
// transaction.
func (s raceSite) meet(t *testing.T, request []string, competitor func()) int {
	t.Helper()
	method, name, _ := strings.Cut(request[0], " ")
	if method != http.MethodPut {
		s.gate.Intercept(0, competitor)
		got := s.send(t, request)
		if _, met := s.gate.Open(); !met {
			t.Error("no transaction came to the gate")
		}
		return got
	}
	header := http.Header{}
	for _, line := range request[1:] {
		if key, value, ok := strings.Cut(line, ": "); ok {
			header.Add(key, value)
		}
	}
	body := &meeting{strings.NewReader(request[len(request)-1]), competitor}
	got := s.Send(t, "PUT /dav/files/"+name, header, body).Status
	if body.meet != nil {
		t.Error("the body was not read")
	}
	return got
}

// meeting is a body that begins when something else has been done.
type meeting struct {
	io.Reader

	meet func()
}

func (m *meeting) Read(p []byte) (int, error) {
	if meet := m.meet; meet != nil {
		m.meet = nil
		meet()
	}
	return m.Reader.Read(p)
}

// left is which of some names are files, with their contents.
func (s raceSite) left(t *testing.T) string {
	t.Helper()
	var all []string
	for _, name := range []string{"a", "b", "c", "x"} {
		if a := s.Do(t, "GET /dav/files/"+name); a.Status == http.StatusOK {
			all = append(all, name+"="+a.Body)
		}
	}
	return strings.Join(all, " ")
}

func TestRequestComparesInItsTransaction(t *testing.T) {
	t.Parallel()
	for _, r := range races() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := newRaceSite(t)
			got := s.meet(t, r.request, func() {
				if got := s.send(t, r.competitor); got != r.meets {
					t.Errorf("the competitor is answered %d, want %d", got, r.meets)
				}
			})
			if got != r.want {
				t.Errorf("the request is answered %d, want %d", got, r.want)
			}
			if left := s.left(t); left != r.left {
				t.Errorf("there is %q, want %q", left, r.left)
			}
			s.CheckLedger(t, s.Who)
		})
	}
}

// Each condition of each method holds at its transaction, or the request is refused.
func TestConditionsHoldInTheTransaction(t *testing.T) {
	t.Parallel()
	methods := map[string][]string{
		"PUT": {"", "mine"}, "DELETE": nil, "MOVE": to("b"), "COPY": to("b"), "PROPPATCH": {"", setColour}, "LOCK": {"", exclusive},
	}
	conditions := map[string]struct {
		header     string
		competitor []string
		plain      bool // RFC 9110: LOCK does not look at it
	}{
		"If-Match":             {"If-Match: {a}", with("PUT a", "", "theirs"), true},
		"If-Match *":           {"If-Match: *", with("DELETE a"), true},
		"If-None-Match":        {`If-None-Match: "other", {new}`, with("PUT a", "", "theirs"), true},
		"If-Unmodified-Since":  {"If-Unmodified-Since: {time}", with("PUT a", "", "theirs"), true},
		"If with a tag":        {"If: ([{a}])", with("PUT a", "", "theirs"), false},
		"If of another":        {"If: </dav/files/x> ([{x}])", with("PUT x", "", "theirs"), false},
		"If of another's name": {"If: </dav/files/n> (Not [{x}])", with("COPY x", to("n")...), false},
	}
	for method, rest := range methods {
		for what, c := range conditions {
			if c.plain && method == "LOCK" {
				continue
			}
			t.Run(method+" "+what, func(t *testing.T) {
				t.Parallel()
				s := newRaceSite(t)
				s.Clock.Advance(time.Minute)
				header := strings.NewReplacer(
					"{a}", s.Do(t, "GET /dav/files/a").Header.Get("ETag"), "{x}", s.Do(t, "GET /dav/files/x").Header.Get("ETag"),
					"{new}", s.tagOf(t, "theirs"), "{time}", s.Clock.Now().UTC().Add(-30*time.Second).Format(http.TimeFormat),
				).Replace(c.header)
				got := s.meet(t, append([]string{method + " a", header}, rest...), func() {
					if got := s.send(t, c.competitor); got >= 300 {
						t.Errorf("the competitor is answered %d", got)
					}
				})
				if got != http.StatusPreconditionFailed && (got != http.StatusNotFound || what != "If-Match *") {
					t.Errorf("answered %d", got)
				}
				if left := s.left(t); strings.Contains(left, "mine") || strings.Contains(left, "b=") {
					t.Errorf("there is %q", left)
				}
			})
		}
	}
}

// tagOf is the tag of a content.
func (s raceSite) tagOf(t *testing.T, content string) string {
	t.Helper()
	tag := s.Do(t, "PUT /dav/files/tag", "", content).Header.Get("ETag")
	s.Do(t, "DELETE /dav/files/tag").Want(t, http.StatusNoContent)
	return tag
}

func TestCopyOntoItselfIsRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t)
	s.Do(t, "PUT /dav/files/a", "", "one").Want(t, http.StatusCreated)
	for _, method := range []string{"MOVE", "COPY"} {
		s.Do(t, method+" /dav/files/a", to("a")...).Want(t, http.StatusForbidden).Has(t, "onto itself")
	}
	s.Do(t, "GET /dav/files/a").Has(t, "one")
}

// With a base URL the server knows its names: a Destination on another host is not here.
func TestADestinationOnAnotherServer(t *testing.T) {
	t.Parallel()
	known := newStack(t, func(o *dav.Options) { o.BaseURL = "https://drive.example.org" })
	unknown := newStack(t)
	for _, s := range []*stack{known, unknown} {
		s.Do(t, "PUT /dav/files/a", "", "one").Want(t, http.StatusCreated)
	}
	for i, host := range []string{"https://drive.example.org", "https://Drive.example.org:443", "http://example.com", ""} { // the third is the request's own
		known.Do(t, "COPY /dav/files/a", fmt.Sprintf("Destination: %s/dav/files/b%d", host, i)).Want(t, http.StatusCreated)
	}
	for _, method := range []string{"COPY", "MOVE"} {
		known.Do(t, method+" /dav/files/a", "Destination: https://other.example/dav/files/c").Want(t, http.StatusBadGateway)
	}
	known.Do(t, "GET /dav/files/c").Want(t, http.StatusNotFound)
	unknown.Do(t, "MOVE /dav/files/a", "Destination: https://other.example/dav/files/c").Want(t, http.StatusCreated)
}
