package davtest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// Response is a recorded response.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Do sends a request, given as "METHOD /path", headers as "Name: value", and the body's lines after
// an empty string. It authenticates as ann unless a header names another user.
func (s *Site) Do(t testing.TB, line string, rest ...string) Response {
	t.Helper()
	var body io.Reader
	header := http.Header{}
	for i, h := range rest {
		if h == "" {
			body = strings.NewReader(strings.Join(rest[i+1:], "\n"))
			break
		}
		name, value, _ := strings.Cut(h, ": ")
		header.Add(name, value)
	}
	return s.Send(t, line, header, body)
}

// Send sends a request, given as "METHOD /path", with any body. A body of unknown length is sent
// without Content-Length. It authenticates as ann unless header names another user.
func (s *Site) Send(t testing.TB, line string, header http.Header, body io.Reader) Response {
	t.Helper()
	method, path, _ := strings.Cut(line, " ")
	r := httptest.NewRequestWithContext(t.Context(), method, path, body)
	r.Header = header
	if header.Get("Authorization") == "" {
		r.SetBasicAuth("ann", "x")
	}
	if _, known := body.(*strings.Reader); known { // as package http does
		r.Header.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
	}
	w := httptest.NewRecorder()
	s.Server.ServeHTTP(w, r)
	a := Response{w.Code, w.Header(), w.Body.String()}
	if method != http.MethodGet { // GET returns contents
		a.CheckXML(t)
	}
	return a
}

// Want fails the test unless the response has the status.
func (a Response) Want(t testing.TB, status int) Response {
	t.Helper()
	if a.Status != status {
		t.Fatalf("status %d, want %d\n%v\n%s", a.Status, status, a.Header, a.Body)
	}
	return a
}

// Has fails the test unless the body contains each of the texts.
func (a Response) Has(t testing.TB, texts ...string) Response {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(a.Body, text) {
			t.Fatalf("the answer does not hold %q:\n%s", text, a.Body)
		}
	}
	return a
}

// Lacks fails the test if the body contains one of the texts.
func (a Response) Lacks(t testing.TB, texts ...string) Response {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(a.Body, text) {
			t.Fatalf("the answer holds %q:\n%s", text, a.Body)
		}
	}
	return a
}

// Exact returns a header by its exact case, since some clients compare names with their case.
func (a Response) Exact(name string) string { return strings.Join(a.Header[name], ",") }

// Between returns the text between two texts of the body. It fails the test if one is absent.
func (a Response) Between(t testing.TB, from, to string) string {
	t.Helper()
	_, rest, ok := strings.Cut(a.Body, from)
	inner, _, ends := strings.Cut(rest, to)
	if !ok || !ends {
		t.Fatalf("nothing between %q and %q:\n%s", from, to, a.Body)
	}
	return inner
}
