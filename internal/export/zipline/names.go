package zipline

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"smartdrive/internal/base/drive"
)

// maxParentBytes is the longest way to a file in an archive, in bytes and with its slashes; with
// the file's own name it is 1,023. The format would take 65,535, but no common system unpacks more
// than 4,096, the directory that it unpacks to included.
const maxParentBytes = 768

// maxExtension is up to how many bytes, its dot included, count as the extension that stays when a
// name is shortened.
const maxExtension = 16

// SafeNames returns for each wanted name the one that it gets in the archive, in the same order. A
// path has '/' between its folders; one that ends with '/' is a folder. The result is a function of
// the list, and SafeNames of the result is the result.
//
// A name stays as it is unless some system could not hold it: docs/export.md has the rules. The
// first of several equal names keeps it, the others get " (2)", " (3)"; names are equal when they
// are so without regard to case and normalisation. A name that others have as a folder is taken,
// too.
func SafeNames(wanted []string) []string {
	names := make([]string, len(wanted))
	d := deduper{taken: make(map[string]bool, len(wanted)), parents: map[string]bool{}, next: map[string]int{}}
	for i, w := range wanted {
		names[i] = cleanPath(w)
		d.takeFolders(names[i])
	}
	var again []int
	for i, n := range names {
		if isFolder(n) {
			continue // it was taken with the folders; the same one twice is dealt with below
		}
		if !d.take(n) {
			again = append(again, i)
		}
	}
	for _, i := range again {
		names[i] = d.other(names[i])
	}
	d.folders(names)
	return names
}

func isFolder(name string) bool { return strings.HasSuffix(name, "/") }

// deduper knows which folded names are taken, by files and by folders.
type deduper struct {
	taken   map[string]bool
	parents map[string]bool // ways to files that takeFolders has seen
	next    map[string]int  // folded name -> the number to try next
}

// fold returns the same for names that are equal on a system without regard to case and
// normalisation.
func fold(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return drive.Name(name).Fold()
		}
	}
	return strings.ToLower(name) // the same, and many times faster
}

// takeFolders takes all folders on the way to a name. Names may share them.
func (d *deduper) takeFolders(name string) {
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

func (d *deduper) take(name string) bool {
	key := fold(name)
	if d.taken[key] {
		return false
	}
	d.taken[key] = true
	return true
}

// other takes the first free name with a number. All long names that may meet once they are cut to
// make room for one share a counter: else each of them would try all numbers again.
func (d *deduper) other(name string) string {
	parent, base := splitPath(name)
	stem, ext := splitExtension(base)
	key := fold(parent + cut(stem, drive.MaxNameBytes-len(" (100000)")-len(ext)) + ext)
	for n := max(2, d.next[key]); ; n++ {
		if candidate := numbered(name, n); d.take(candidate) {
			d.next[key] = n + 1
			return candidate
		}
	}
}

// folders gives entries for one and the same folder names of their own: an archive has each name
// once.
func (d *deduper) folders(names []string) {
	seen := map[string]bool{}
	for i, n := range names {
		if !isFolder(n) {
			continue
		}
		if key := fold(n); seen[key] {
			names[i] = d.other(strings.TrimSuffix(n, "/")) + "/"
		} else {
			seen[key] = true
		}
	}
}

// numbered puts " (n)" before the extension, and shortens what comes before it where there is no
// room.
func numbered(name string, n int) string {
	parent, base := splitPath(name)
	stem, ext := splitExtension(base)
	suffix := fmt.Sprintf(" (%d)", n)
	return parent + cut(stem, drive.MaxNameBytes-len(suffix)-len(ext)) + suffix + ext
}

// splitPath returns the folders with their last '/', and the rest.
func splitPath(name string) (parent, base string) {
	i := strings.LastIndexByte(name, '/') + 1
	return name[:i], name[i:]
}

// splitExtension cuts a segment before its extension; one that is too long to be meant as such is
// none.
func splitExtension(base string) (stem, ext string) {
	if i := strings.LastIndexByte(base, '.'); i > 0 && len(base)-i <= maxExtension {
		return base[:i], base[i:]
	}
	return base, ""
}

// cut shortens s to at most n bytes, between two characters, and leaves neither dot nor space at
// the end.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:boundary(s, n)]
	}
	return strings.TrimRight(s, ". ")
}

// boundary is the last place at or before n where s may be cut: between runes, and not before a
// mark that combines with the one left of it.
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

const zwj = '\u200d' // joins emoji

// cleanPath makes a safe path. Leading slashes, "." and ".." are left out; what is too long loses
// folders, the uppermost first.
func cleanPath(wanted string) string {
	folder := strings.HasSuffix(wanted, "/")
	var segments []string
	for s := range strings.SplitSeq(wanted, "/") {
		if s != "" && s != "." && s != ".." {
			segments = append(segments, cleanSegment(s))
		}
	}
	segments = segments[tooDeep(segments):]
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

// tooDeep is how many of the uppermost folders must go for the others to fit.
func tooDeep(segments []string) int {
	total, i := 0, max(0, len(segments)-1)
	for ; i > 0; i-- {
		if total += len(segments[i-1]) + 1; total > maxParentBytes {
			break
		}
	}
	return i
}

// cleanSegment makes one segment of a path that every common system can hold.
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

// shorten cuts a segment to the length that every file system takes; its extension stays.
func shorten(s string) string {
	if len(s) <= drive.MaxNameBytes {
		return s
	}
	stem, ext := splitExtension(s)
	return cut(stem, drive.MaxNameBytes-len(ext)) + ext
}

// safeRune replaces what Windows refuses, and what makes a name look like another one: control
// characters, line and paragraph separators, and marks that change the direction of text ("gpj.exe"
// shown as "exe.jpg").
func safeRune(r rune) rune {
	switch {
	case strings.ContainsRune(`<>:"|?*\`, r), unicode.IsControl(r), r == 0xFEFF, r == 0x061C,
		0x200E <= r && r <= 0x200F, 0x2028 <= r && r <= 0x202E, 0x2066 <= r && r <= 0x2069:
		return '_'
	}
	return r
}

// isDevice reports whether Windows takes a file of this name for a device, whatever its extension
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
