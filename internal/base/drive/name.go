package drive

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Limits of names and paths.
const (
	MaxNameBytes = 255      // as in every common file system
	MaxPathBytes = 4096     // PATH_MAX on Linux
	MaxDepth     = 128      // levels below the root
	MaxFileSize  = 16 * TiB // the largest file of ext4 with 4 KiB blocks
)

// Name is one path segment: 1 to 255 bytes of NFC-normalised UTF-8 (Unicode TR15) without '/' and
// control characters, and neither "." nor "..".
type Name string

// ParseName normalises s to NFC and checks it. The error is BadName with a reason, and with {limit,
// sent} if s is too long.
func ParseName(s string) (Name, error) {
	if !utf8.ValidString(s) {
		return "", badName("not-utf8")
	}
	s = norm.NFC.String(s)
	switch {
	case s == "":
		return "", badName("empty")
	case s == "." || s == "..":
		return "", badName("dots")
	case len(s) > MaxNameBytes:
		return "", badName("too-long", "limit", MaxNameBytes, "sent", len(s))
	case strings.ContainsRune(s, '/'):
		return "", badName("slash")
	case strings.ContainsFunc(s, unicode.IsControl):
		return "", badName("control")
	}
	return Name(s), nil
}

// badName returns a BadName error with a reason.
func badName(reason string, args ...any) *Error {
	return Fail(BadName, append([]any{"reason", reason}, args...)...)
}

// Fold returns the form of the name for search and for detecting clashes on case-insensitive
// systems (Unicode default case folding, then NFC).
func (n Name) Fold() string { return norm.NFC.String(cases.Fold().String(string(n))) }

// Path is an absolute path as a list of segments. The root is the empty Path.
type Path []Name

// ParsePath parses "/a/b"; "/" is the root. Empty, "." and ".." segments are errors, as are too
// deep or long paths: BadName with a reason.
func ParsePath(s string) (Path, error) {
	if !strings.HasPrefix(s, "/") {
		return nil, badName("not-absolute")
	}
	if s == "/" {
		return Path{}, nil
	}
	return ParseSegments(strings.Split(s[1:], "/"))
}

// ParseSegments returns the path with these decoded segments; none is the root. It fails as
// ParsePath does: with BadName for a segment that ParseName refuses, for more than MaxDepth
// segments and beyond MaxPathBytes.
func ParseSegments(segments []string) (Path, error) {
	if len(segments) > MaxDepth {
		return nil, badName("too-deep", "limit", MaxDepth, "sent", len(segments))
	}
	path, total := make(Path, len(segments)), 0
	for i, s := range segments {
		name, err := ParseName(s)
		if err != nil {
			return nil, err
		}
		path[i] = name
		total += len(name) + 1
	}
	if total > MaxPathBytes {
		return nil, badName("path-too-long", "limit", MaxPathBytes, "sent", total)
	}
	return path, nil
}

// String returns the path with a leading slash.
func (p Path) String() string {
	if len(p) == 0 {
		return "/"
	}
	var b strings.Builder
	for _, n := range p {
		b.WriteByte('/')
		b.WriteString(string(n))
	}
	return b.String()
}

// Split returns the parent and the last name; ok is false for the root.
func (p Path) Split() (parent Path, name Name, ok bool) {
	if len(p) == 0 {
		return nil, "", false
	}
	return p[:len(p)-1], p[len(p)-1], true
}
