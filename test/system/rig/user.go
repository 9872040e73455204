package rig

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"example.org/smartdrive/test/history"
)

// User sends requests as a user. Without a Token it is anonymous.
type User struct {
	URL   string // of the server
	Name  string
	Token string
	HTTP  *http.Client
}

// Anybody returns an anonymous user. It follows no redirects, because the API has none.
func (s *Server) Anybody(t testing.TB) User {
	t.Helper()
	transport := &http.Transport{MaxIdleConnsPerHost: 16}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return User{URL: s.URL, HTTP: &http.Client{Transport: transport, CheckRedirect: stay}}
}

// Login signs a user in with Password.
func (s *Server) Login(t testing.TB, name string) User {
	t.Helper()
	u := s.Anybody(t)
	u.Name = name
	made := u.Post(t, "/sessions", map[string]any{"name": name, "password": Password}).JSON(t, http.StatusCreated)
	u.Token = made["token"].(string)
	return u
}

// At returns the same user at another server of the installation; a token survives a restart.
func (u User) At(s *Server) User {
	u.URL = s.URL
	return u
}

// NewUser creates a user with a quota of total bytes and signs in as the user.
func (s *Server) NewUser(t testing.TB, name string, total int64) User {
	t.Helper()
	s.Login(t, "admin").Post(t, "/admin/users", map[string]any{"name": name, "password": Password, "total": total}).
		JSON(t, http.StatusCreated)
	return s.Login(t, name)
}

// Reply is a response with its complete body.
type Reply struct {
	*http.Response
	Bytes []byte
}

func (r Reply) String() string { return fmt.Sprintf("%d %s", r.StatusCode, clip(r.Bytes)) }

// clip shortens a body for an error message.
func clip(b []byte) []byte { return b[:min(len(b), 600)] }

// Do sends a request to a path below /api/v1 and fails the test if the connection breaks. body is
// nil, []byte, an io.Reader (sent with unknown length), or a value to send as JSON. header lists
// names and values in turn.
func (u User) Do(t testing.TB, method, path string, body any, header ...string) Reply {
	t.Helper()
	r, err := u.Try(t, method, path, body, header...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return r
}

// Try sends a request as Do does, but returns the error of a broken connection instead of failing
// the test.
func (u User) Try(t testing.TB, method, path string, body any, header ...string) (Reply, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, u.URL+"/api/v1"+path, reader(t, body))
	if err != nil {
		t.Fatal(err)
	}
	if !isBytes(body) {
		req.Header.Set("Content-Type", "application/json")
	}
	return u.Send(req, header...)
}

// Send adds the token and the header fields to req and sends it.
func (u User) Send(req *http.Request, header ...string) (Reply, error) {
	if u.Token != "" {
		req.Header.Set("Authorization", "Bearer "+u.Token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := u.HTTP.Do(req)
	if err != nil {
		return Reply{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return Reply{resp, raw}, err
}

// reader returns the encoded body of a request.
func reader(t testing.TB, body any) io.Reader {
	t.Helper()
	switch b := body.(type) {
	case nil:
		return nil
	case []byte:
		return bytes.NewReader(b)
	case io.Reader:
		return struct{ io.Reader }{b}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(raw)
}

// isBytes reports whether a body is sent unchanged, not as JSON.
func isBytes(body any) bool {
	switch body.(type) {
	case nil, []byte, io.Reader:
		return true
	}
	return false
}

// Get sends a GET request.
func (u User) Get(t testing.TB, path string, header ...string) Reply {
	t.Helper()
	return u.Do(t, http.MethodGet, path, nil, header...)
}

// Post sends body as JSON.
func (u User) Post(t testing.TB, path string, body any, header ...string) Reply {
	t.Helper()
	return u.Do(t, http.MethodPost, path, body, header...)
}

// JSON returns the decoded body and fails the test unless the status matches.
func (r Reply) JSON(t testing.TB, status int) map[string]any {
	t.Helper()
	r.Is(t, status)
	var doc map[string]any
	if err := json.Unmarshal(r.Bytes, &doc); err != nil {
		t.Fatalf("read %s: %v", r, err)
	}
	return doc
}

// Is fails the test unless the response has one of the statuses, and returns r.
func (r Reply) Is(t testing.TB, status ...int) Reply {
	t.Helper()
	if !slices.Contains(status, r.StatusCode) {
		t.Fatalf("%s %s: the status is not %d: %s", r.Request.Method, r.Request.URL.Path, status, r)
	}
	return r
}

// Problem returns the problem document and fails the test unless status, code and type match.
func (r Reply) Problem(t testing.TB, status int, code string) map[string]any {
	t.Helper()
	doc := r.JSON(t, status)
	if doc["code"] != code || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("the problem is not %s: %s", code, r)
	}
	return doc
}

// Items returns the items of a page with status 200.
func (r Reply) Items(t testing.TB) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, item := range r.JSON(t, http.StatusOK)["items"].([]any) {
		all = append(all, item.(map[string]any))
	}
	return all
}

// Put stores a file in one request and returns its node.
func (u User) Put(t testing.TB, path string, c history.Content) map[string]any {
	t.Helper()
	r := u.Do(t, http.MethodPut, "/files"+Escape(path)+"?parents=true", c.Bytes(0, c.Size)).Is(t, http.StatusCreated, http.StatusOK)
	return r.JSON(t, r.StatusCode)
}

// Escape percent-encodes each segment of a path.
func Escape(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// Node returns the node at a path.
func (u User) Node(t testing.TB, path string) map[string]any {
	t.Helper()
	return u.Get(t, "/nodes?path="+url.QueryEscape(path)).JSON(t, http.StatusOK)
}

// Holds fails the test unless the file at path has the content.
func (u User) Holds(t testing.TB, path string, c history.Content) {
	t.Helper()
	id := u.Node(t, path)["id"].(string)
	got := u.Get(t, "/nodes/"+id+"/content").Is(t, http.StatusOK)
	if !bytes.Equal(got.Bytes, c.Bytes(0, c.Size)) {
		t.Fatalf("%s has other bytes than were sent: %d of them, expected are %d", path, len(got.Bytes), c.Size)
	}
}

// Ledger is the storage balance of an account, in bytes. Total is nil for unlimited.
type Ledger struct {
	Total                          *int64
	Finished, Unfinished, Reserved int64
}

// Ledger returns the balance of a user, read as an administrator.
func (s *Server) Ledger(t testing.TB, name string) Ledger {
	t.Helper()
	admin := s.Login(t, "admin")
	user := admin.Get(t, "/admin/users?name="+url.QueryEscape(name)).Items(t)[0]
	var l Ledger
	r := admin.Get(t, "/admin/users/"+user["id"].(string)+"/ledger").Is(t, http.StatusOK)
	if err := json.Unmarshal(r.Bytes, &l); err != nil {
		t.Fatal(err)
	}
	return l
}
