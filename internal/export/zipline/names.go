package zipline

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"example.org/smartdrive/internal/base/drive"
)

// maxParentBytes is the maximum length of a file's parent path with its slashes; with the file
// name, paths have at most 1,023 bytes. The format allows 65,535, but no common system unpacks more
// than 4,096, including the target directory.
const maxParentBytes = 768

// maxExtension is the maximum length, with its dot, of an extension that is kept when a name is
// shortened.
const maxExtension = 16

// SafeNames returns a safe, unique name for each wanted name, in the same order. Folders in a path
// are separated by '/'; a path that ends with '/' is a folder. The result depends only on the list,
// and SafeNames is idempotent.
//
// A name is changed only if some system cannot store it; docs/export.md has the rules. The first of
// several equal names is kept, the others get " (2)", " (3)". Names are compared without regard to
// case and normalisation. A name used as a folder by another entry counts as taken.
func SafeNames(wanted []string) []string {
	names := make([]string, len(wanted))
	d := deduper{taken: make(map[string]bool, len(wanted)), parents: map[string]bool{}, next: map[string]int{}}
	for i, w := range wanted {
		names[i] = cleanPath(w)
		d.reserveFolders(names[i])
	}
	var again []int
	for i, n := range names {
		if isFolder(n) {
			continue // reserved with the folders; duplicates are handled below
		}
		if !d.reserve(n) {
			again = append(again, i)
		}
	}
	for _, i := range again {
		names[i] = d.nextFree(names[i])
	}
	d.dedupeFolders(names)
	return names
}

// isFolder reports whether a path names a folder: it ends in "/".
func isFolder(name string) bool { return strings.HasSuffix(name, "/") }

// deduper tracks the folded names used by files and folders.
type deduper struct {
	taken   map[string]bool
	parents map[string]bool // parent paths that reserveFolders has processed
	next    map[string]int  // next number to try, by folded name
}

// fold returns a key that is equal for names that are the same on a system that ignores case and
// normalisation.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return drive.Name(name).Fold()
		}
	}
	return strings.ToLower(name) // the same result, many times faster
}

// reserveFolders reserves all parent folders of a name. Names may share folders.
func (d *deduper) reserveFolders(name string) {
	parent, _ := splitPath(name)
	if d.parents[parent] {
		return
	}
	d.parents[parent] = true
	for i := range len(parent) {
		if parent[i] == '/' {
			d.taken[fold(parent[:i])] = true
		}
	}
}

// reserve marks a name as used, and returns false if it, or a name that folds to the same, was used
// before.
func (d *deduper) reserve(name string) bool {
	key := fold(name)
	if d.taken[key] {
		return false
	}
	d.taken[key] = true
	return true
}

// nextFree reserves and returns the first free name with a number. Long names that become equal
// when shortened share a counter; otherwise each would try all numbers again.
func (d *deduper) nextFree(name string) string {
	parent, base := splitPath(name)
	stem, ext := splitExtension(base)
	key := fold(parent + truncate(stem, drive.MaxNameBytes-len(" (100000)")-len(ext)) + ext)
	for n := max(2, d.next[key]); ; n++ {
		if candidate := numbered(name, n); d.reserve(candidate) {
			d.next[key] = n + 1
			return candidate
		}
	}
}

// dedupeFolders renames duplicate entries of one folder: an archive has each name once.
func (d *deduper) dedupeFolders(names []string) {
	seen := map[string]bool{}
	for i, n := range names {
		if !isFolder(n) {
			continue
		}
		if key := fold(n); seen[key] {
			names[i] = d.nextFree(strings.TrimSuffix(n, "/")) + "/"
		} else {
			seen[key] = true
		}
	}
}

// numbered inserts " (n)" before the extension and shortens the stem if needed.
func numbered(name string, n int) string {
	parent, base := splitPath(name)
	stem, ext := splitExtension(base)
	suffix := fmt.Sprintf(" (%d)", n)
	return parent + truncate(stem, drive.MaxNameBytes-len(suffix)-len(ext)) + suffix + ext
}

// splitPath returns the parent path with its trailing '/', and the base name.
func splitPath(name string) (parent, base string) {
	i := strings.LastIndexByte(name, '/') + 1
	return name[:i], name[i:]
}

// splitExtension splits a base name before its extension. An extension longer than maxExtension
// counts as part of the stem.
func splitExtension(base string) (stem, ext string) {
	if i := strings.LastIndexByte(base, '.'); i > 0 && len(base)-i <= maxExtension {
		return base[:i], base[i:]
	}
	return base, ""
}

// truncate shortens s to at most n bytes at a character boundary and trims trailing dots and
// spaces.
func truncate(s string, n int) string {
	if len(s) > n {
		s = s[:boundary(s, n)]
	}
	return strings.TrimRight(s, ". ")
}

// boundary returns the largest index up to n at which s may be cut: between runes, and not before a
// combining mark.
func boundary(s string, n int) int {
	for n > 0 {
		r, _ := utf8.DecodeRuneInString(s[n:])
		if utf8.RuneStart(s[n]) && !unicode.Is(unicode.M, r) && r != zwj {
			break
		}
		n--
	}
	return n
}

const zwj = '\u200d' // zero-width joiner: joins emoji

// cleanPath returns a safe path. It drops empty segments, "." and "..", and the topmost folders of
// a path that is too long.
func cleanPath(wanted string) string {
	folder := strings.HasSuffix(wanted, "/")
	var segments []string
	for s := range strings.SplitSeq(wanted, "/") {
		if s != "" && s != "." && s != ".." {
			segments = append(segments, cleanSegment(s))
		}
	}
	segments = segments[excessFolders(segments):]
	name := strings.Join(segments, "/")
	switch {
	case name == "" && folder:
		return "_/"
	case name == "":
		return "_"
	case folder:
		return name + "/"
	}
	return name
}

// excessFolders returns the number of topmost folders to drop so that the rest fits into
// maxParentBytes.
func excessFolders(segments []string) int {
	total, i := 0, max(0, len(segments)-1)
	for ; i > 0; i-- {
		if total += len(segments[i-1]) + 1; total > maxParentBytes {
			break
		}
	}
	return i
}

// cleanSegment returns a path segment that each common system can store.
func cleanSegment(s string) string {
	s = norm.NFC.String(strings.Map(safeRune, strings.ToValidUTF8(s, "_")))
	s = shorten(strings.TrimRight(s, ". "))
	if isDevice(s) {
		s = shorten("_" + s)
	}
	if s == "" {
		return "_"
	}
	return s
}

// shorten limits a segment to drive.MaxNameBytes and keeps its extension.
func shorten(s string) string {
	if len(s) <= drive.MaxNameBytes {
		return s
	}
	stem, ext := splitExtension(s)
	return truncate(stem, drive.MaxNameBytes-len(ext)) + ext
}

// safeRune replaces characters that Windows refuses and characters that disguise a name: control
// characters, line and paragraph separators, and text direction marks ("gpj.exe" shown as
// "exe.jpg").
func safeRune(r rune) rune {
	switch {
	case strings.ContainsRune(`<>:"|?*\`, r), unicode.IsControl(r), r == 0xFEFF, r == 0x061C,
		0x200E <= r && r <= 0x200F, 0x2028 <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069:
		return '_'
	}
	return r
}

// isDevice reports whether Windows treats a file of this name as a device, with any extension
// (Microsoft: Naming Files, Paths, and Namespaces).
func isDevice(s string) bool {
	stem, _, _ := strings.Cut(s, ".")
	switch stem = strings.ToUpper(strings.TrimRight(stem, " ")); stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	kind, digit := "", ""
	if len(stem) > 3 {
		kind, digit = stem[:3], stem[3:]
	}
	return (kind == "COM" || kind == "LPT") && strings.Contains("0123456789¹²³", digit) && utf8.RuneCountInString(digit) == 1
}
