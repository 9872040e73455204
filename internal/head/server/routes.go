package server

import (
	"net/http"
	"reflect"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// routePages is the route label of pages.
const routePages = "pages"

// redirect is the type of the handler that http.ServeMux returns for a redirect.
var redirect = reflect.TypeOf(http.RedirectHandler("/", http.StatusTemporaryRedirect))

// route calls the handler of Options.Routes for r. It renders the plain answers of http.ServeMux as
// problem documents: 404, 405 with Allow, and as 404 the redirect from "/a" to a pattern "/a/...".
// OPTIONS without a pattern gets 204 with Allow. A GET or HEAD without a route goes to
// Options.Pages. The pages are not registered as "GET /", since that would turn other 404s into
// 405s. It sets rec.route.
func (s *Server) route(rec *recorder, r *http.Request) {
	h, pattern := s.opt.Routes.Handler(r)
	switch {
	case reflect.TypeOf(h) == redirect:
		problem.Write(rec, r, drive.Fail(drive.NotFound))
	case pattern != "":
		rec.route = pattern
		s.opt.Routes.ServeHTTP(rec, r) // matches again, because only ServeHTTP sets PathValues
	case s.opt.Pages != nil && allowed(r, h) == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		rec.route = routePages
		s.opt.Pages.ServeHTTP(rec, r)
	default:
		noRoute(rec, r, h)
	}
}

// allowed returns the methods that the mux's own handler lists in a 405; "" if it answers 404.
func allowed(r *http.Request, h http.Handler) string {
	answer := headerOnly{}
	h.ServeHTTP(&answer, r)
	return answer.Header().Get("Allow")
}

// noRoute answers 404, or 405 if other methods are allowed, as a problem.
func noRoute(w http.ResponseWriter, r *http.Request, h http.Handler) {
	allow := allowed(r, h)
	if allow == "" {
		problem.Write(w, r, drive.Fail(drive.NotFound))
		return
	}
	if !strings.Contains(allow, http.MethodOptions) {
		allow += ", " + http.MethodOptions
	}
	if r.Method == http.MethodOptions {
		w.Header().Set("Allow", allow)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	problem.Write(w, r, drive.Fail(drive.Method, "method", r.Method, "allow", strings.Split(allow, ", ")))
}

// headerOnly is a ResponseWriter that keeps the header and drops the rest.
type headerOnly struct{ header http.Header }

// Header returns the header map, created at first use.
func (h *headerOnly) Header() http.Header {
	if h.header == nil {
		h.header = make(http.Header)
	}
	return h.header
}

// Write discards p.
func (h *headerOnly) Write(p []byte) (int, error) { return len(p), nil }

// WriteHeader discards the status.
func (h *headerOnly) WriteHeader(int) {}
