package dav

import (
	"strings"

	"smartdrive/internal/base/drive"
)

// Litter says what is done with the files that desktops leave behind: ._* and .DS_Store of macOS,
// Thumbs.db and desktop.ini of Windows, and the lock files of Office, ~$*.
type Litter string

// The policies.
const (
	Keep   Litter = "keep"   // they are files like all others
	Hide   Litter = "hide"   // they are stored, and left out of the listings of this head
	Refuse Litter = "refuse" // nobody can make one
)

// isLitter reports whether a name is one of them.
func isLitter(name drive.Name) bool {
	s := strings.ToLower(string(name))
	switch s {
	case ".ds_store", "thumbs.db", "desktop.ini":
		return true
	}
	return strings.HasPrefix(s, "._") || strings.HasPrefix(s, "~$")
}

// takes refuses what may not be made here.
func (l Litter) takes(name drive.Name) error {
	if l == Refuse && isLitter(name) {
		return drive.Fail(drive.Forbidden, "reason", "litter")
	}
	return nil
}

// shows reports whether a listing has the name.
func (l Litter) shows(name drive.Name, folder bool) bool {
	return l != Hide || folder || !isLitter(name)
}
