package webui

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/head/problem"
)

// policy returns the Content-Security-Policy of all pages. Scripts and styles come only from this
// server: nothing inline, no eval. There are two exceptions:
//
//   - 'wasm-unsafe-eval' lets the uploader compile the WebAssembly that hashes; it does not allow text as script.
//   - style-src-attr 'unsafe-inline' is for style attributes in component templates: they position boxes and load nothing, because
//     img-src and font-src apply to them.
//
// blob: is for previews and bundled workers, data: for icons in style sheets. If downloads are
// redirected to the store, its origin is allowed for images, audio and video.
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

// Directives returns the names that reports are counted under: the directives of the policy, and
// "other".
func Directives() []string {
	names := []string{"script-src-elem", "script-src-attr", "style-src-elem"} // browsers' names in reports
	for one := range strings.SplitSeq(policy("", ""), "; ") {
		name, _, _ := strings.Cut(one, " ")
		names = append(names, name)
	}
	return append(names, otherDirective)
}

const (
	// otherDirective stands in reports for every directive that is not counted by its name.
	otherDirective = "other"
	maxReport      = 16 << 10 // bytes; browsers truncate quotations
)

// serveReport counts a report of a browser (CSP3 §5.3). Anybody may send one, so nothing of it is
// stored.
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
