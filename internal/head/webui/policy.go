package webui

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/head/problem"
)

// policy is the Content-Security-Policy of all pages. Scripts and styles are files of ours: none
// inline, no eval. Two things are wider than that, each for a reason:
//
//   - 'wasm-unsafe-eval' lets the uploader compile the WebAssembly that hashes; it lets no text become a script.
//   - style-src-attr 'unsafe-inline' is for the style attributes in templates of components: they move boxes, and load nothing,
//     because img-src and font-src hold for them, too.
//
// blob: is for previews, and for workers where a bundler makes them so; data: for icons in style
// sheets. Where downloads are sent on to the store, pictures, sound and video come from its origin,
// too: those are what the API sends on for being looked at.
func policy(subPath, store string) string {
	if store != "" {
		store = " " + store
	}
	return strings.Join([]string{
		"default-src 'none'",
		"script-src 'self' 'wasm-unsafe-eval'",
		"style-src 'self'",
		"style-src-attr 'unsafe-inline'",
		"img-src 'self' blob: data:" + store,
		"media-src 'self' blob:" + store,
		"font-src 'self'",
		"connect-src 'self'",
		"worker-src 'self' blob:",
		"frame-src 'self' blob:",
		"manifest-src 'self'",
		"base-uri 'self'",
		"form-action 'self'",
		"frame-ancestors 'none'",
		"report-uri " + subPath + "/csp-report",
	}, "; ")
}

// Directives are the names under which reports are counted: those of the policy, and "other".
func Directives() []string {
	names := []string{"script-src-elem", "script-src-attr", "style-src-elem"} // as browsers call them in reports
	for one := range strings.SplitSeq(policy("", ""), "; ") {
		name, _, _ := strings.Cut(one, " ")
		names = append(names, name)
	}
	return append(names, otherDirective)
}

const (
	otherDirective = "other"
	maxReport      = 16 << 10 // bytes; browsers cut what they quote
)

// serveReport takes what browsers tell (CSP3 §5.3): anybody may send it, so it is counted and
// nothing of it is kept.
func (u *UI) serveReport(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxReport))
	var report struct {
		Body struct {
			Effective string `json:"effective-directive"`
			Violated  string `json:"violated-directive"`
		} `json:"csp-report"`
	}
	if err == nil {
		err = json.Unmarshal(raw, &report)
	}
	if err != nil {
		problem.Write(w, r, drive.Wrap(err, drive.BadRequest))
		return
	}
	directive, _, _ := strings.Cut(report.Body.Effective, " ")
	if directive == "" {
		directive, _, _ = strings.Cut(report.Body.Violated, " ")
	}
	if !slices.Contains(Directives(), directive) {
		directive = otherDirective
	}
	u.opt.Blocked(directive)
	w.WriteHeader(http.StatusNoContent)
}
