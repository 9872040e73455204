// Package webui serves the web pages: the files that "vite build" of web/ writes to dist, which are
// embedded in the binary.
//
// It serves the GETs that no other head has a route for:
//
//	/assets/...     files with a content hash in their names: cached by browsers forever
//	/favicon.svg    any other file of dist: revalidated each time, and answered by 304
//	else            index.html, if the client requests a page ("Accept: text/html"): the page's own router handles the path
//
// Unknown paths below the prefixes of other heads, and missing files, are 404 problems.
//
// A page may run only scripts of this server, connect only to it, and cannot be framed; see policy.
// Browsers report what they block to /csp-report, where it is counted. Contents of users are never
// served by this package but by the API, under a policy that lets them do nothing.
package webui

import (
	"embed"
	"io/fs"
	"net/http"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// "all:" is needed because bundlers give some chunks names with a leading underscore.
//
//go:embed all:dist
var dist embed.FS

// Options configure New.
type Options struct {
	// SubPath is the path of the base URL: "" or "/drive". URLs in pages are relative to it.
	SubPath string
	// Store is the origin that downloads are redirected to, as https://store.example.org; empty
	// without redirects.
	Store string
	// Files are the files of the pages. Default: those in the binary.
	Files fs.FS
	// Blocked is called for each report of a browser, with the violated directive, one of
	// Directives. Default: reports are dropped.
	Blocked func(directive string)
}

// UI serves the pages. It is safe for concurrent use.
type UI struct {
	opt    Options
	assets map[string]*asset // by path without the leading slash
	policy string
}

// New lists the files of the pages; contents are read at the first request. It fails if there is no
// index.html.
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
	// index is the file that is served for the pages of the app.
	index     = "index.html"
	hashedDir = "assets/" // directory of files with a content hash in their names
)

// otherHeads are the first path segments of other heads. Unknown paths below them are not pages.
var otherHeads = []string{"api", "tus", "healthz", "readyz", "metrics", "problems", "csp-report", "assets"}

// Register adds the routes that are not GETs to mux.
func (u *UI) Register(mux *http.ServeMux) { mux.HandleFunc("POST /csp-report", u.serveReport) }

// ServeHTTP serves GET and HEAD of paths without a route.
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

// isPage reports whether the client requests a page instead of a missing file.
func isPage(path string, r *http.Request) bool {
	first, _, _ := strings.Cut(path, "/")
	if slices.Contains(otherHeads, first) {
		return false
	}
	return path == "" || strings.Contains(r.Header.Get("Accept"), "text/html")
}

// setHeaders sets the security headers of a page. The opener policy is set only on secure
// connections; otherwise browsers warn.
func (u *UI) setHeaders(h http.Header, r *http.Request) {
	h.Set("Content-Security-Policy", u.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer") // URLs of shares are secret
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
	if r.URL.Scheme == "https" {
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}
