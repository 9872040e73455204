package webui_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/fstest"

	"example.org/smartdrive/internal/head/server"
	"example.org/smartdrive/internal/head/webui"
)

const page = `<!doctype html><html><head><base href="/"><script type="module" src="./assets/app-1a2b.js"></script></head><body></body></html>`

var script = strings.Repeat("export const answer = 42;\n", 200)

// site is the pages behind the server's middleware, as they are in the program, next to an API of
// two routes.
func site(t *testing.T, subPath string, blocked func(string)) http.Handler {
	t.Helper()
	ui, err := webui.New(webui.Options{SubPath: subPath, Blocked: blocked, Files: fstest.MapFS{
		"index.html": {Data: []byte(page)}, "assets/app-1a2b.js": {Data: []byte(script)}, "assets/_dash-3c.css": {Data: []byte("a{}")},
		"favicon.svg": {Data: []byte("<svg/>")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/me", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("DELETE /api/v1/tokens/{id}", func(http.ResponseWriter, *http.Request) {})
	ui.Register(mux)
	return server.New(server.Options{Routes: mux, Pages: ui, SubPath: subPath, Log: slog.New(slog.DiscardHandler)})
}

func ask(t *testing.T, h http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

func TestRouting(t *testing.T) {
	t.Parallel()
	h := site(t, "", nil)
	for _, c := range []struct {
		method, path, accept string
		status               int
		content              string
	}{
		{"GET", "/", "*/*", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", "", 200, "text/html; charset=utf-8"},
		{"GET", "/s/Zx81", browser, 200, "text/html; charset=utf-8"},
		{"GET", "/files/photos/2026", browser, 200, "text/html; charset=utf-8"},
		{"GET", "/drive/photos/a.b", browser, 200, "text/html; charset=utf-8"},
		{"GET", "/s/Zx81", "image/*", 404, "application/problem+json"},
		{"GET", "/assets/app-1a2b.js", "*/*", 200, "text/javascript; charset=utf-8"},
		{"GET", "/assets/_dash-3c.css", "*/*", 200, "text/css; charset=utf-8"},
		{"GET", "/assets/gone-0000.js", browser, 404, "application/problem+json"},
		{"GET", "/favicon.svg", "*/*", 200, "image/svg+xml"},
		{"GET", "/api/v1/nope", browser, 404, "application/problem+json"},
		{"GET", "/tus/x", browser, 404, "application/problem+json"},
		{"GET", "/api/v1/tokens/x", browser, 405, "application/problem+json"},
		{"POST", "/s/Zx81", browser, 404, "application/problem+json"},
		{"GET", "/assets", browser, 404, "application/problem+json"},
	} {
		got := ask(t, h, c.method, c.path, "Accept", c.accept)
		if got.Code != c.status || got.Header().Get("Content-Type") != c.content && !strings.HasPrefix(got.Header().Get("Content-Type"), c.content) {
			t.Errorf("%s %s is %d %s, want %d %s", c.method, c.path, got.Code, got.Header().Get("Content-Type"), c.status, c.content)
		}
		if c.method == "HEAD" && got.Body.Len() > 0 {
			t.Errorf("HEAD %s has a body", c.path)
		}
	}
}

func TestOnlyPicturesAndSoundComeFromTheStore(t *testing.T) {
	t.Parallel()
	ui, err := webui.New(webui.Options{Store: "https://store.example.org:9000", Files: fstest.MapFS{"index.html": {Data: []byte(page)}}})
	if err != nil {
		t.Fatal(err)
	}
	csp := ask(t, ui, "GET", "/", "Accept", browser).Header().Get("Content-Security-Policy")
	var from []string
	for directive := range strings.SplitSeq(csp, "; ") {
		if name, sources, _ := strings.Cut(directive, " "); strings.HasSuffix(sources, " https://store.example.org:9000") {
			from = append(from, name)
		}
	}
	if got := strings.Join(from, " "); got != "img-src media-src" || strings.Count(csp, "store.example.org") != 2 {
		t.Errorf("the store is allowed for %q by %s", got, csp)
	}
}

func TestPagesAreUnderThePolicy(t *testing.T) {
	t.Parallel()
	got := ask(t, site(t, "/drive", nil), "GET", "/drive/", "Accept", browser)
	if to := got.Header().Get("Location"); got.Code != http.StatusPermanentRedirect || to != "../drive" {
		t.Fatalf("a final slash is %d to %q", got.Code, to)
	}
	got = ask(t, site(t, "/drive", nil), "GET", "/drive", "Accept", browser)
	h := got.Header()
	csp := h.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "report-uri /drive/csp-report", "base-uri 'self'"} {
		if !strings.Contains(csp, want) {
			t.Errorf("the policy %q lacks %s", csp, want)
		}
	}
	for _, never := range []string{"'unsafe-eval'", "script-src 'unsafe-inline'", "http:", "https:", "*"} {
		if strings.Contains(csp, never) {
			t.Errorf("the policy %q holds %s", csp, never)
		}
	}
	if h.Get("Referrer-Policy") != "no-referrer" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cross-Origin-Resource-Policy") != "same-origin" {
		t.Errorf("the headers are %v", h)
	}
	if !strings.Contains(got.Body.String(), `<head><base href="/drive/"><script`) {
		t.Errorf("the base is not the base URL's: %s", got.Body)
	}
}

func TestFilesAreCachedAndCompressed(t *testing.T) {
	t.Parallel()
	h := site(t, "", nil)
	const file = "/assets/app-1a2b.js"
	plain, zipped := ask(t, h, "GET", file), ask(t, h, "GET", file, "Accept-Encoding", "br, GZIP;q=0.5")
	if plain.Header().Get("Content-Encoding") != "" || plain.Body.String() != script {
		t.Error("a client without gzip does not get the file as it is")
	}
	if refused := ask(t, h, "GET", file, "Accept-Encoding", "gzip;q=0"); refused.Header().Get("Content-Encoding") != "" {
		t.Error("gzip;q=0 gets gzip")
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped.Body.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(z); err != nil || string(body) != script || zipped.Header().Get("Content-Encoding") != "gzip" {
		t.Errorf("the compressed file is %d bytes, %v", len(body), err)
	}
	if a, b := plain.Header().Get("ETag"), zipped.Header().Get("ETag"); a == b || a == "" {
		t.Errorf("the tags are %s and %s", a, b)
	}
	for _, w := range []*httptest.ResponseRecorder{plain, zipped} {
		if c := w.Header().Get("Cache-Control"); c != "public, max-age=31536000, immutable" || w.Header().Get("Vary") == "" {
			t.Errorf("a hashed file is %q, Vary %q", c, w.Header().Get("Vary"))
		}
	}
	first := ask(t, h, "GET", "/", "Accept", browser)
	if first.Header().Get("Cache-Control") != "no-cache" {
		t.Error("the page itself is kept without asking")
	}
	again := ask(t, h, "GET", "/", "If-None-Match", `"x", W/`+first.Header().Get("ETag"))
	if again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("the page again is %d", again.Code)
	}
}

func TestReportsAreCountedByDirective(t *testing.T) {
	t.Parallel()
	var seen []string
	h := site(t, "", func(d string) { seen = append(seen, d) })
	for body, status := range map[string]int{
		`{"csp-report":{"effective-directive":"img-src","blocked-uri":"http://evil"}}`: 204,
		`{"csp-report":{"violated-directive":"\u0000\"};DROP"}}`:                       204,
		`nonsense`:                 400,
		strings.Repeat(" ", 20000): 413,
	} {
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/csp-report", strings.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != status {
			t.Errorf("%.40q is %d, want %d", body, w.Code, status)
		}
	}
	if len(seen) != 2 || seen[0]+seen[1] != "img-srcother" && seen[0]+seen[1] != "otherimg-src" {
		t.Errorf("counted %q", seen)
	}
}

// The binary contains the pages, and the base path can be inserted into their HTML.
func TestTheBinaryHasPages(t *testing.T) {
	t.Parallel()
	ui, err := webui.New(webui.Options{SubPath: "/sub"})
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, ui, "GET", "/")
	if got.Code != http.StatusOK || strings.Count(got.Body.String(), `<base href="/sub/">`) != 1 {
		t.Errorf("the page is %d %s", got.Code, got.Body)
	}
}
