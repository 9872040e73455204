package server

import (
	"net/http"
	"net/url"
	"strings"

	"smartdrive/internal/base/drive"
)

// checkPath refuses the paths that http.ServeMux would clean and redirect, and takes the sub-path
// off. A redirect would send a body to another address than the client named, and "a/../b" and
// "a%2Fb" mean different things to every proxy.
//
// Only "/" and the given addresses may end in a slash. Below a loose one slashes stand together and
// at the end as clients put them: of those that stand together one is left.
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

// leaveSlash sends a browser that asks for a page with a slash at its end to the one without it, as
// somebody types the address, or a chat shows a link. It is told a relative address: a proxy may
// have taken a sub-path off.
func leaveSlash(w http.ResponseWriter, r *http.Request) bool {
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

// oneSlash leaves one slash where several stand together.
func oneSlash(path string) string {
	for strings.Contains(path, "//") {
		path = strings.ReplaceAll(path, "//", "/")
	}
	return path
}

// checkSegments splits an escaped path and looks at each segment decoded. What else a name may not
// hold is the business of drive.ParseSegments.
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

// stripSubPath makes "/drive/api" into "/api" and "/drive" into "/"; other paths stay, because some
// proxies strip it themselves.
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
		u.RawPath = "" // how the sub-path was escaped is nobody's business; url.URL escapes Path again
	}
	u.Path = path
}

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
