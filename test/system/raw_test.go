package system_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/test/system/rig"
)

// wire is a raw connection, for requests that no HTTP library would send.
type wire struct {
	net.Conn
	read *bufio.Reader
}

func dial(t *testing.T, s *rig.Server) *wire {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(rig.Patience))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // may be closed already
	return &wire{conn, bufio.NewReader(conn)}
}

// say sends the head of a request: its request line without the version, and header lines.
func (w *wire) say(t *testing.T, u rig.User, first string, lines ...string) {
	t.Helper()
	head := append([]string{first + " HTTP/1.1", "Host: drive", "Authorization: Bearer " + u.Token}, lines...)
	if _, err := io.WriteString(w, strings.Join(head, "\r\n")+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
}

// hear reads the response.
func (w *wire) hear(t *testing.T, method string) rig.Reply {
	t.Helper()
	req := &http.Request{Method: method, URL: nil}
	resp, err := http.ReadResponse(w.read, req)
	if err != nil {
		t.Fatalf("no answer can be read: %v", err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the answer is cut: %v", err)
	}
	return rig.Reply{Response: resp, Bytes: raw}
}

// nothing is an endless body.
type nothing struct{}

func (nothing) Read(p []byte) (int, error) { return len(p), nil }

// TestScenarioNTheAnswerToARefusedBodyIsRead: browsers send the whole body before they read the
// response, so a refusal must reach them.
func TestScenarioNTheAnswerToARefusedBodyIsRead(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	up := u.Begin(t, "/upload", content(1))
	const size = 50 * rig.MiB
	for _, c := range []struct {
		path   string
		user   rig.User
		status int
		code   string
	}{
		{"/uploads/" + up.ID + "/parts/0", u, 400, "part-size"},
		{"/uploads/" + up.ID + "/parts/7", u, 400, "part-range"},
		{"/uploads/01900000-0000-7000-8000-000000000000/parts/0", u, 404, "not-found"},
		{"/uploads/" + up.ID + "/parts/0", rig.User{Token: "wrong"}, 401, "unauthenticated"},
		{"/files/no/such/folder/file", u, 404, "not-found"},
		{"/files/a%2Fb", u, 400, "bad-name"},
		{"/me", u, 405, "method"},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			w := dial(t, s)
			w.say(t, c.user, "PUT /api/v1"+c.path, fmt.Sprintf("Content-Length: %d", size))
			if n, err := io.CopyN(w, nothing{}, size); err != nil {
				t.Fatalf("the connection broke after %d of %d bytes: %v", n, int64(size), err)
			}
			r := w.hear(t, http.MethodPut)
			if got := r.Header.Get("Content-Type"); r.StatusCode != c.status || got != "application/problem+json" ||
				!strings.Contains(string(r.Bytes), `"`+c.code+`"`) {
				t.Errorf("the answer is %s", r)
			}
		})
	}
}

// TestPathsThatAreNoNames: paths are split before they are decoded. An invalid name is answered
// with 400, never with a redirect.
func TestPathsThatAreNoNames(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	for path, want := range map[string]int{
		"/files/a%2Fb":                       400,
		"/files/a/../b":                      400,
		"/files/a/%2e%2e/b":                  400,
		"/files/./b":                         400,
		"/files//b":                          400,
		"/files/b/":                          400,
		"/files/":                            400,
		"/files/%00":                         400,
		"/files/%0a":                         400,
		"/files/%ff":                         400,
		"/files/%zz":                         400,
		"/files/" + strings.Repeat("a", 256): 400,
		"/files/" + strings.Repeat("%C3%A9", 128):   400,
		"/files/" + strings.Repeat("a/", 128) + "b": 400,
		"/files/" + strings.Repeat("%41", 255):      201,
		"/files/" + strings.Repeat("%C3%A9", 127):   201,
		"/files/CON":                                  201,
		"/files/%20%3Fx%23y%25":                       201,
		"/files/" + strings.Repeat("a", 20*1024):      400,
		"//files/b":                                   400,
		"/../v1/files/b":                              400,
		"/nodes/%2e%2e":                               400,
		"/nodes/..%2f..%2fetc%2fpasswd/content":       400,
		"/uploads/" + strings.Repeat("x", 300) + "/x": 404,
	} {
		w := dial(t, s)
		method := "PUT"
		if !strings.Contains(path, "/files/") {
			method = "GET"
		}
		w.say(t, u, method+" /api/v1"+path, "Content-Length: 0")
		r := w.hear(t, method)
		shown := path[:min(len(path), 60)]
		if r.StatusCode != want {
			t.Errorf("%s %s: %s, want %d", method, shown, r, want)
		}
		if want >= 400 && path != "/files/%zz" && r.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s %s: the refusal is no problem: %s", method, shown, r)
		}
	}
	if names := u.Get(t, "/nodes/root/children").Items(t); len(names) != 4 {
		t.Errorf("there are %d files", len(names))
	}
	u.Node(t, "/ ?x#y%")
}

// TestHugeHeaders: a header that is too large is refused, and the server continues.
func TestHugeHeaders(t *testing.T) {
	t.Parallel()
	s := rig.New(t).Start(t)
	u := s.NewUser(t, "ann", 60*rig.MiB)
	for name, lines := range map[string][]string{
		"one":  {"X-Long: " + strings.Repeat("x", 100<<10)},
		"many": strings.Split(strings.Repeat("X-Many: x\n", 10_000), "\n")[:10_000],
	} {
		w := dial(t, s)
		head := append([]string{"GET /api/v1/me HTTP/1.1", "Host: drive"}, lines...)
		_, _ = io.WriteString(w, strings.Join(head, "\r\n")+"\r\n\r\n") // the server may close the connection
		if r := w.hear(t, http.MethodGet); r.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("%s: %s", name, r)
		}
	}
	u.Get(t, "/me").Is(t, http.StatusOK)
}
