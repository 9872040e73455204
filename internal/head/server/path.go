package server

import (
	"net/http"
	"net/url"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// checkPath fails with drive.BadName for paths that http.ServeMux would clean and redirect: those
// with empty, "." or ".." segments, or with escaped slashes. A redirect would send a body to
// another address than the client named, and proxies disagree about "a/../b" and "a%2Fb". It
// removes subPath from u, if the path begins with it.
//
// Only "/" and the paths in slashed may end in a slash. Below a prefix in loose, repeated and final
// slashes are accepted, and repeated ones are merged in u.
func checkPath(u *url.URL, subPath string, slashed, loose []string) error {
	escaped := u.EscapedPath()
	for _, prefix := range loose {
		if strings.HasPrefix(escaped, prefix) || strings.HasPrefix(escaped, subPath+prefix) {
			u.Path, u.RawPath = oneSlash(u.Path), oneSlash(u.RawPath)
			escaped = strings.TrimSuffix(u.EscapedPath(), "/")
		}
	}
	for _, address := range slashed {
		if escaped == address || escaped == subPath+address {
			escaped = strings.TrimSuffix(escaped, "/")
		}
	}
	if err := checkSegments(escaped); err != nil {
		return err
	}
	stripSubPath(u, subPath)
	return nil
}

// redirectSlash redirects a browser from a page with a final slash to the one without, and returns
// true. It returns false, without an answer, for requests other than a GET or HEAD that accepts
// HTML. The Location is relative, because a proxy may have removed a sub-path.
func redirectSlash(w http.ResponseWriter, r *http.Request) bool {
	page, ok := strings.CutSuffix(r.URL.EscapedPath(), "/")
	if !ok || page == "" || checkSegments(page) != nil || r.Method != http.MethodGet && r.Method != http.MethodHead ||
		!strings.Contains(r.Header.Get("Accept"), "text/html") {
		return false
	}
	to := "../" + page[strings.LastIndexByte(page, '/')+1:]
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusPermanentRedirect)
	return true
}

// oneSlash replaces repeated slashes by one.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// checkSegments fails with drive.BadName unless an escaped path begins with a slash and
// checkSegment accepts each segment. drive.ParseSegments checks names further.
func checkSegments(escaped string) error {
	rest, ok := strings.CutPrefix(escaped, "/")
	if !ok {
		return drive.Fail(drive.BadName, "reason", "not-absolute")
	}
	if rest == "" {
		return nil
	}
	for segment := range strings.SplitSeq(rest, "/") {
		if err := checkSegment(segment); err != nil {
			return err
		}
	}
	return nil
}

// checkSegment fails with drive.BadName for a segment that is empty, ".", ".." or has a slash.
func checkSegment(escaped string) error {
	s, err := url.PathUnescape(escaped)
	switch {
	case err != nil:
		return drive.Wrap(err, drive.BadName, "reason", "escape")
	case s == "":
		return drive.Fail(drive.BadName, "reason", "empty")
	case s == "." || s == "..":
		return drive.Fail(drive.BadName, "reason", "dots")
	case strings.Contains(s, "/"):
		return drive.Fail(drive.BadName, "reason", "slash")
	}
	return nil
}

// stripSubPath removes subPath from the path of u: it turns "/drive/api" into "/api" and "/drive"
// into "/". Paths that do not begin with it stay, because some proxies remove it themselves.
func stripSubPath(u *url.URL, subPath string) {
	if subPath == "" {
		return
	}
	path, ok := cutPath(u.Path, subPath)
	if !ok {
		return
	}
	if raw, ok := cutPath(u.RawPath, subPath); ok && u.RawPath != "" {
		u.RawPath = raw
	} else {
		u.RawPath = "" // url.URL escapes Path again
	}
	u.Path = path
}

// cutPath removes a prefix of whole segments; false if path does not begin with it.
func cutPath(path, prefix string) (string, bool) {
	rest, ok := strings.CutPrefix(path, prefix)
	switch {
	case !ok:
		return path, false
	case rest == "":
		return "/", true
	case rest[0] == '/':
		return rest, true
	}
	return path, false
}
