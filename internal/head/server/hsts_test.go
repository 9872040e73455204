package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Responses over TLS have the HSTS header; responses without TLS do not.
func TestHSTSHeader(t *testing.T) {
	t.Parallel()
	s := New(Options{Routes: http.NewServeMux()})
	for address, want := range map[string]string{"https://x/healthz": "max-age=31536000", "http://x/healthz": ""} {
		rec := httptest.NewRecorder()
		s.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, address, nil))
		if got := rec.Header().Get("Strict-Transport-Security"); got != want {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
}

// A token is in no log, also where the address or the method is wrong.
func TestTokensOfWrongAddressesAreNotLogged(t *testing.T) {
	t.Parallel()
	const token = "x7Qm2bT9cVfL4sWzR8pK1d"
	for _, path := range []string{
		"/api/v1/public/shares/" + token, "/api/v1/public/shares/" + token + "/wrong", "/api//v1/public/collects/" + token,
		"/drive/s/" + token, "/s/" + token + "/", "/" + token,
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions} {
			var book logBook
			mux := http.NewServeMux()
			mux.HandleFunc("PUT /api/v1/public/shares/{token}", func(http.ResponseWriter, *http.Request) {})
			s := New(Options{Routes: mux, Log: book.logger()})
			s.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, nil))
			if line := book.String(); strings.Contains(line, token) || !strings.Contains(line, `"path":"/`) {
				t.Errorf("%s %s: the log says %s", method, path, line)
			}
		}
	}
}
