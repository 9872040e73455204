package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

func readString(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Unexpected errors are logged as errors; expected refusals are not.
func TestExpectedRefusalsAreNoErrorsInTheLog(t *testing.T) {
	t.Parallel()
	for want, errs := range map[slog.Level][]error{
		slog.LevelInfo:  {drive.Fail(drive.Quota), drive.Fail(drive.Stopping), context.Canceled},
		slog.LevelWarn:  {drive.Fail(drive.Unavailable), drive.Fail(drive.DiskFull)},
		slog.LevelError: {drive.Fail(drive.Internal), errors.New("unknown")},
	} {
		for _, err := range errs {
			if got := logLevel(fmt.Errorf("seal: %w", err)); got != want {
				t.Errorf("%v is %v, want %v", err, got, want)
			}
		}
	}
}

func TestTheAccessLogHasWhatIsNeededAndNoSecrets(t *testing.T) {
	t.Parallel()
	var book logBook
	s := running(t, Options{Log: book.logger()}, func(mux *http.ServeMux) {
		mux.HandleFunc("PUT /x/{id}", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			problem.Write(w, r, fmt.Errorf("seal: %w", drive.Wrap(errors.New("disk gone"), drive.Unavailable)))
		})
	})
	resp := do(t, s, http.MethodPut, "/x/7?sig=hunter2", strings.NewReader("12345"))
	doc := problemOf(t, resp)
	if strings.Contains(fmt.Sprint(doc), "disk gone") {
		t.Errorf("the cause reached the client: %v", doc)
	}
	line := lineWith(t, &book, "/x/7")
	for key, want := range map[string]any{
		"level": "WARN", "method": "PUT", "path": "/x/7", "route": "PUT /x/{id}", "status": 503.0, "received": 5.0, "client": "127.0.0.1",
		"code": "unavailable", "request": doc["request_id"], "sent": float64(resp.ContentLength),
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if err, _ := line["error"].(string); !strings.Contains(err, "disk gone") {
		t.Errorf("the cause is not in the log: %v", line)
	}
	if strings.Contains(book.String(), "hunter2") {
		t.Errorf("the query is in the log: %s", book.String())
	}
}

// lineWith waits for the log line of a path: it is written when the client may have its answer
// already.
func lineWith(t *testing.T, book *logBook, path string) map[string]any {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		for raw := range strings.Lines(book.String()) {
			var line map[string]any
			if json.Unmarshal([]byte(raw), &line) == nil && line["path"] == path {
				return line
			}
		}
	}
	t.Fatalf("no line for %s in %s", path, book.String())
	return nil
}

func TestPanicIs500AndServerContinues(t *testing.T) {
	t.Parallel()
	var book logBook
	s := running(t, Options{Log: book.logger()}, func(mux *http.ServeMux) {
		mux.HandleFunc("GET /early", func(http.ResponseWriter, *http.Request) { panic("secret invariant") })
		mux.HandleFunc("GET /late", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			panic("late")
		})
	})
	for range 2 {
		resp := get(t, s, "/early")
		doc := problemOf(t, resp)
		if resp.StatusCode != 500 || doc["code"] != "internal" || strings.Contains(fmt.Sprint(doc), "secret") {
			t.Errorf("%d %v", resp.StatusCode, doc)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL()+"/late", nil)
	// The request needs a new connection, because a client repeats it if a reused one breaks.
	if resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req); err == nil {
		if _, err := io.ReadAll(resp.Body); err == nil {
			t.Error("half an answer looked like a whole one")
		}
		resp.Body.Close()
	}
	if figures := readString(t, get(t, s, "/metrics")); !strings.Contains(figures, "smartdrive_http_panics_total 3") {
		t.Errorf("3 panics are not in %s", figures)
	}
	if !strings.Contains(book.String(), "secret invariant") {
		t.Error("the panic is not in the log")
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	s := running(t, Options{CORSOrigins: []string{"https://app.example"}}, whoAmI)
	preflight := func(origin string) *http.Response {
		return do(t, s, http.MethodOptions, "/me", nil, "Origin", origin, "Access-Control-Request-Method", "GET")
	}
	ok := preflight("https://app.example")
	if ok.StatusCode != 204 || ok.Header.Get("Access-Control-Allow-Origin") != "https://app.example" ||
		!strings.Contains(ok.Header.Get("Access-Control-Allow-Methods"), "PATCH") ||
		!strings.Contains(ok.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("preflight: %d %v", ok.StatusCode, ok.Header)
	}
	if bad := preflight("https://evil.example"); bad.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("another origin was let in: %v", bad.Header)
	}
	// A page must be able to read a refusal as well.
	for _, path := range []string{"/me", "/nothing", "/a//b"} {
		resp := get(t, s, path, "Origin", "https://app.example")
		if resp.Header.Get("Access-Control-Allow-Origin") != "https://app.example" || !strings.Contains(resp.Header.Get("Access-Control-Expose-Headers"), "Retry-After") {
			t.Errorf("%s: %v", path, resp.Header)
		}
	}
	if none := get(t, running(t, Options{}, whoAmI), "/me", "Origin", "https://app.example"); none.Header.Get("Access-Control-Allow-Origin") != "" {
		t.Error("an origin was let in where none is configured")
	}
}

func TestSecurityHeadersAreOnEveryAnswer(t *testing.T) {
	t.Parallel()
	s := running(t, Options{}, whoAmI)
	for _, path := range []string{"/me", "/nothing", "/a//b", "/healthz"} {
		h := get(t, s, path).Header
		if h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Referrer-Policy") != "no-referrer" || h.Get("Content-Security-Policy") == "" || h.Get("X-Request-Id") == "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestSlowCheckFailsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(Options{Routes: http.NewServeMux(), Checks: []Check{
			{Name: "contents", Func: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }},
			{Name: "redis", Func: func(ctx context.Context) error { return ctx.Err() }},
		}})
		if w := answer(s, "GET", "/readyz"); !strings.Contains(w.body.String(), `"contents":"failing","redis":"ok"`) {
			t.Error(w.body.String())
		}
	})
}

func TestHealth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var broken, soft error
		asked := 0
		mux := http.NewServeMux()
		s := New(Options{Routes: mux, Checks: []Check{
			{Name: "database", Func: func(context.Context) error { asked++; return broken }},
			{Name: "kafka", Func: func(context.Context) error { return soft }, Soft: true},
		}})
		ready := func() (int, string) {
			w := answer(s, "GET", "/readyz")
			return w.status, w.body.String()
		}
		if status, body := ready(); status != 200 || !strings.Contains(body, `"database":"ok"`) {
			t.Errorf("%d %s", status, body)
		}
		soft = errors.New("broker is away")
		<-time.After(2 * time.Second)
		if status, body := ready(); status != 200 || !strings.Contains(body, `"kafka":"failing"`) {
			t.Errorf("%d %s", status, body)
		}
		broken = errors.New("secret path is gone")
		if status, _ := ready(); status != 200 || asked != 2 {
			t.Errorf("%d: the checks were made %d times in three seconds", status, asked)
		}
		<-time.After(2 * time.Second)
		if status, body := ready(); status != 503 || !strings.Contains(body, `"database":"failing"`) || strings.Contains(body, "secret") {
			t.Errorf("%d %s", status, body)
		}
		if w := answer(s, "GET", "/healthz"); w.status != 200 {
			t.Errorf("healthz: %d", w.status)
		}
		s.stopping.Store(true)
		if status, body := ready(); status != 503 || !strings.Contains(body, "stopping") {
			t.Errorf("%d %s", status, body)
		}
		if w := answer(s, "GET", "/metrics"); w.status != 503 {
			t.Errorf("metrics while stopping: %d", w.status)
		}
	})
}

// answered is a response in memory.
type answered struct {
	headerOnly
	status int
	body   strings.Builder
}

func (a *answered) WriteHeader(status int) { a.status = status }
func (a *answered) Write(p []byte) (int, error) {
	if a.status == 0 {
		a.status = 200
	}
	return a.body.Write(p)
}

func answer(s *Server, method, path string) *answered {
	r, _ := http.NewRequest(method, "http://x"+path, nil)
	r.RemoteAddr = "192.0.2.1:1"
	a := &answered{}
	s.ServeHTTP(a, r)
	return a
}

func TestMetricsAreForThisMachineAndAdministrators(t *testing.T) {
	t.Parallel()
	admin := func(r *http.Request) bool { return r.Header.Get("Authorization") == "Bearer admin" }
	open := running(t, Options{Admin: admin}, whoAmI)
	behind := running(t, Options{Admin: admin, TrustedProxies: proxies}, whoAmI)
	for _, tt := range []struct {
		s      *Server
		header []string
		status int
	}{
		{open, nil, 200},
		{open, []string{"X-Forwarded-For", "203.0.113.9"}, 403}, // by a proxy that nobody declared
		{open, []string{"Via", "1.1 proxy"}, 403},
		{behind, []string{"X-Forwarded-For", "203.0.113.9"}, 403},
		{behind, []string{"X-Forwarded-For", "203.0.113.9", "Authorization", "Bearer admin"}, 200},
	} {
		if resp := get(t, tt.s, "/metrics", tt.header...); resp.StatusCode != tt.status {
			t.Errorf("%v: %d, want %d", tt.header, resp.StatusCode, tt.status)
		}
	}
	if resp := exchange(t, open, "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n"); resp.StatusCode != 403 {
		t.Errorf("a name that was bent to this machine: %d", resp.StatusCode)
	}
	get(t, open, "/me?x=1")
	if figures := readString(t, get(t, open, "/metrics")); !strings.Contains(figures, `smartdrive_http_requests_total{route="GET /me",status="200"} 1`) {
		t.Errorf("the request is not in %s", figures)
	}
}

func TestGate(t *testing.T) {
	t.Parallel()
	g := NewLimiter[drive.UserID](3)
	ann, bob := drive.NewID[drive.UserID](), drive.NewID[drive.UserID]()
	var releases []func()
	for range 3 {
		release, err := g.Acquire(ann)
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, err := g.Acquire(ann); !drive.IsKind(err, drive.Rate) {
		t.Errorf("the fourth request at once: %v", err)
	}
	if release, err := g.Acquire(bob); err != nil {
		t.Errorf("another user: %v", err)
	} else {
		release()
	}
	var all sync.WaitGroup
	for _, release := range releases {
		all.Go(release)
	}
	all.Wait()
	if release, err := g.Acquire(ann); err != nil {
		t.Errorf("after the others ended: %v", err)
	} else {
		release()
	}
	if len(g.inUse) != 0 {
		t.Errorf("the gate remembers %d users who do nothing", len(g.inUse))
	}
}

func TestUntrustedRequestIDs(t *testing.T) {
	t.Parallel()
	trusted := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	s := running(t, Options{TrustedProxies: trusted}, whoAmI)
	for _, id := range []string{"a b", "x\"y", strings.Repeat("x", 200), "<script>"} {
		if got := get(t, s, "/me", "X-Request-Id", id).Header.Get("X-Request-Id"); got == id || len(got) != 36 {
			t.Errorf("%q became %q", id, got)
		}
	}
}
