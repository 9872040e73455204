package client

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// errBadName reports a remote name that cannot be a local file name.
var errBadName = errors.New("the server sent a name that cannot be a file's")

// localName returns the local name of a remote file. On Windows it escapes as %XX: forbidden
// characters, the first character of device names, a trailing dot or space, and a '%' that would
// read as such an escape, so that different names stay different. It returns errBadName for an
// empty name, "." and "..", a slash or a NUL.
func localName(name string, windows bool) (string, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return "", fmt.Errorf("%q: %w", name, errBadName)
	}
	if !windows {
		return name, nil
	}
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c < ' ', strings.IndexByte(`<>:"\|?*`, c) >= 0,
			c == '%' && isHex(name, i+1) && isHex(name, i+2),
			i == len(name)-1 && (c == '.' || c == ' '),
			i == 0 && isDevice(name):
			fmt.Fprintf(&b, "%%%02X", c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), nil
}

// isHex reports whether s has a hexadecimal digit at index i; false beyond its end.
func isHex(s string, i int) bool {
	return i < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0
}

// isDevice reports whether Windows treats the name as a device, whatever follows its first dot.
func isDevice(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem = strings.ToUpper(strings.TrimRight(stem, " ")); stem {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	if len(stem) < 4 || stem[:3] != "COM" && stem[:3] != "LPT" {
		return false
	}
	switch stem[3:] {
	case "0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³":
		return true
	}
	return false
}

// LocalName returns the local name of a remote file on this operating system. It fails for names
// that no local file can have.
func LocalName(name string) (string, error) { return localName(name, runtime.GOOS == "windows") }
