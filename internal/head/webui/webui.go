// Package webui serves the pages: the files that "vite build" of web/ leaves in dist, which are
// part of the binary.
//
// It answers the GETs that no other head has a route for:
//
//	/assets/...     files whose names carry a hash of what is in them: kept by browsers for ever
//	/favicon.svg    any other file of dist: asked for again each time, and answered by 304
//	else            index.html, where the client asks for a page ("Accept: text/html"): the page's own router knows the address
//
// What is below the prefixes of other heads, and what is not a page, is a 404 problem as before.
//
// A page may run only what is served here, connect only to here, and be framed by nobody; see
// policy. What a browser blocks it reports to /csp-report, where it is counted. What users store
// never comes from this package: contents are sent by the API, under a policy of their own that
// lets them do nothing.
package webui

import (
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
)

// The pattern has "all" because bundlers give some chunks names with a leading underscore.
//
//go:embed all:dist
var dist embed.FS

// Options configure New.
type Options struct {
	// SubPath is the path of the base URL: "" or "/drive". Addresses in pages are relative to it.
	SubPath string
	// Store is the origin that downloads are sent on to, as https://store.example.org; empty: they
	// are not.
	Store string
	// Files are the pages. Default: those in the binary.
	Files fs.FS
	// Blocked is called for each report of something that a browser blocked, with the directive
	// that blocked it, one of Directives. Default: nobody is told.
	Blocked func(directive string)
}

// UI serves the pages. It is safe for concurrent use.
type UI struct {
	opt    Options
	assets map[string]*asset // by path, without the first slash
	policy string
}

// New reads the names of the pages' files; contents are read when they are asked for first.
func New(opt Options) (*UI, error) {
	if opt.Files == nil {
		files, err := fs.Sub(dist, "dist")
		if err != nil {
			return nil, err
		}
		opt.Files = files
	}
	if opt.Blocked == nil {
		opt.Blocked = func(string) {}
	}
	opt.SubPath = strings.TrimSuffix(opt.SubPath, "/")
	u := &UI{opt: opt, assets: map[string]*asset{}, policy: policy(opt.SubPath, opt.Store)}
	err := fs.WalkDir(opt.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			u.assets[path] = u.newAsset(path)
		}
		return err
	})
	if err == nil && u.assets[index] == nil {
		err = fs.ErrNotExist
	}
	return u, err
}

const (
	index  = "index.html"
	hashed = "assets/" // where the bundler puts files whose names carry a hash
)

// others are the first segments of the addresses of other heads: what they do not know is not a
// page.
var others = []string{"api", "tus", "healthz", "readyz", "metrics", "problems", "csp-report", "assets"}

// Register adds the addresses that are not GETs to the mux of all heads.
func (u *UI) Register(mux *http.ServeMux) { mux.HandleFunc("POST /csp-report", u.serveReport) }

// ServeHTTP answers GET and HEAD of what no route has.
func (u *UI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/")
	a := u.assets[name]
	if a == nil && isPage(name, r) {
		a = u.assets[index]
	}
	if a == nil {
		problem.Write(w, r, drive.Fail(drive.NotFound))
		return
	}
	u.setHeaders(w.Header(), r)
	if err := a.serve(w, r); err != nil {
		problem.Write(w, r, err)
	}
}

// isPage reports whether the client asks for a page and not for a file that is not there.
func isPage(path string, r *http.Request) bool {
	first, _, _ := strings.Cut(path, "/")
	if slices.Contains(others, first) {
		return false
	}
	return path == "" || strings.Contains(r.Header.Get("Accept"), "text/html")
}

// setHeaders says what a page may do. The opener policy counts only where the connection is secure;
// elsewhere browsers warn of it.
func (u *UI) setHeaders(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", u.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // addresses of shares are secrets
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	if r.URL.Scheme == "https" {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}
