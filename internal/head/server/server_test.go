package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// running starts a real server on a free port with the given routes, and stops it when the test
// ends.
func running(t *testing.T, opt Options, add func(mux *http.ServeMux)) *Server {
	t.Helper()
	opt.Routes = http.NewServeMux()
	if add != nil {
		add(opt.Routes)
	}
	if opt.Listen == "" {
		opt.Listen = "127.0.0.1:0"
	}
	s := New(opt)
	ctx, stop := context.WithCancel(context.Background())
	if err := s.Listen(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return s
}

// exchange sends raw bytes over one connection, then reads one response.
func exchange(t *testing.T, s *Server, raw string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, raw); err != nil {
		t.Fatal(err)
	}
	return readResponse(t, conn, strings.Fields(raw)[0])
}

func readResponse(t *testing.T, conn net.Conn, method string) *http.Response {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// problemOf reads the problem document of a response, which it must be.
func problemOf(t *testing.T, resp *http.Response) map[string]any {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Fatalf("status %d, Content-Type %q: not a problem", resp.StatusCode, got)
	}
	var doc map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		t.Fatal(err)
	}
	if doc["status"] != float64(resp.StatusCode) {
		t.Errorf("status member %v in a response with status %d", doc["status"], resp.StatusCode)
	}
	return doc
}

func get(t *testing.T, s *Server, path string, header ...string) *http.Response {
	t.Helper()
	return do(t, s, http.MethodGet, path, nil, header...)
}

func do(t *testing.T, s *Server, method, path string, body io.Reader, header ...string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL()+path, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// logBook collects log records as lines of JSON.
type logBook struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBook) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logBook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestRoutesSayTheirRefusalsAsProblems(t *testing.T) {
	t.Parallel()
	s := running(t, Options{}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /things/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("id")) })
		mux.HandleFunc("PUT /things/{id}", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("GET /files/{path...}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("path")) })
	})
	tests := []struct {
		method, path string
		status       int
		code, allow  string
	}{
		{"GET", "/nothing", 404, "not-found", ""},
		{"POST", "/things/1", 405, "method", "GET, HEAD, PUT, OPTIONS"},
		{"OPTIONS", "/things/1", 204, "", "GET, HEAD, PUT, OPTIONS"},
		{"OPTIONS", "/nothing", 404, "not-found", ""},
		{"HEAD", "/things/1", 200, "", ""},
		{"GET", "/files", 404, "not-found", ""}, // the mux would redirect to /files/
		{"GET", "/files/a%20b/c%3Fd", 200, "", ""},
		{"GET", "//things/1", 400, "bad-name", ""}, // the mux would redirect all of these
		{"GET", "/things/../things/1", 400, "bad-name", ""},
		{"GET", "/things/%2e%2e/1", 400, "bad-name", ""},
		{"GET", "/things/./1", 400, "bad-name", ""},
		{"GET", "/things/1/", 400, "bad-name", ""},
		{"GET", "/things/a%2Fb", 400, "bad-name", ""},
	}
	for _, tt := range tests {
		t.Run(tt.method+" "+tt.path, func(t *testing.T) {
			t.Parallel()
			resp := exchange(t, s, tt.method+" "+tt.path+" HTTP/1.1\r\nHost: x\r\n\r\n")
			if resp.StatusCode != tt.status {
				t.Fatalf("status %d, want %d", resp.StatusCode, tt.status)
			}
			if got := resp.Header.Get("Allow"); got != tt.allow {
				t.Errorf("Allow %q, want %q", got, tt.allow)
			}
			if tt.code == "" {
				return
			}
			if got := problemOf(t, resp)["code"]; got != tt.code {
				t.Errorf("code %v, want %s", got, tt.code)
			}
		})
	}
}

// A browser that requests a page with a trailing slash is redirected to the path without it, below
// any prefix of a proxy. Other clients and paths are not redirected.
func TestFinalSlashIsRedirected(t *testing.T) {
	t.Parallel()
	s := running(t, Options{SubPath: "/drive/"}, func(*http.ServeMux) {})
	for _, tt := range []struct{ line, accept, want string }{
		{"GET /login/", "text/html,*/*", "../login"},
		{"HEAD /drive/s/abc%3F/?lang=en", "text/html", "../abc%3F?lang=en"},
		{"GET /login/", "*/*", ""},
		{"PUT /login/", "text/html", ""},
		{"GET //evil.example/", "text/html", ""},
		{"GET /../", "text/html", ""},
		{"GET /login//", "text/html", ""},
	} {
		resp := exchange(t, s, tt.line+" HTTP/1.1\r\nHost: x\r\nAccept: "+tt.accept+"\r\n\r\n")
		want := http.StatusPermanentRedirect
		if tt.want == "" {
			want = http.StatusBadRequest
		}
		if got := resp.Header.Get("Location"); got != tt.want || resp.StatusCode != want {
			t.Errorf("%s: %d to %q, want %d to %q", tt.line, resp.StatusCode, got, want, tt.want)
		}
	}
}

func TestSubPathMayBeStrippedOrNot(t *testing.T) {
	t.Parallel()
	s := running(t, Options{SubPath: "/drive/"}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /things/{id}", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.PathValue("id")) })
	})
	if !strings.HasSuffix(s.URL(), "/drive") {
		t.Errorf("URL %s does not name the sub-path", s.URL())
	}
	for path, want := range map[string]string{
		"/drive/things/a%20b": "a b", "/things/a": "a", "/drive/things/%E4%B8%AD%3F": "中?",
	} {
		resp := exchange(t, s, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
		if body, _ := io.ReadAll(resp.Body); string(body) != want {
			t.Errorf("GET %s: %d %q, want %q", path, resp.StatusCode, body, want)
		}
	}
	if resp := exchange(t, s, "GET /drivethings/a HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != 404 {
		t.Errorf("a path that only begins like the sub-path: %d", resp.StatusCode)
	}
}

func TestOnlyTheGivenAddressesEndInASlash(t *testing.T) {
	t.Parallel()
	s := running(t, Options{SubPath: "/drive", Slashed: []string{"/tus/"}}, func(mux *http.ServeMux) {
		mux.HandleFunc("POST /tus/{$}", func(http.ResponseWriter, *http.Request) {})
		mux.HandleFunc("POST /other/{$}", func(http.ResponseWriter, *http.Request) {})
	})
	for path, want := range map[string]int{"/tus/": 200, "/drive/tus/": 200, "/other/": 400, "/tus//": 400, "/drive//tus/": 400, "/tus/../tus/": 400} {
		if resp := exchange(t, s, "POST "+path+" HTTP/1.1\r\nHost: x\r\n\r\n"); resp.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, resp.StatusCode, want)
		}
	}
}
