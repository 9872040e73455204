package client

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
)

// errBadName is a name that no local file may have.
var errBadName = errors.New("the server sent a name that cannot be a file's")

// localName returns the name under which a remote file is kept on this kind of computer. Windows
// refuses some characters, device names, and dots and spaces at the end: they are escaped as %XX,
// and a '%' that would read as an escape too, so that no two names become one.
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

func isHex(s string, i int) bool {
	return i < len(s) && strings.IndexByte("0123456789abcdefABCDEF", s[i]) >= 0
}

// isDevice reports names that mean a device on Windows, whatever follows their first dot.
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

// LocalName returns the name that a remote file gets on this computer.
func LocalName(name string) (string, error) { return localName(name, runtime.GOOS == "windows") }
