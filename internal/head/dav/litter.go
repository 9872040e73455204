package dav

import (
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// Litter is the policy for files that desktop programs create: ._* and .DS_Store of macOS,
// Thumbs.db and desktop.ini of Windows, and the lock files of Office, ~$*.
type Litter string

// The policies.
const (
	Keep   Litter = "keep"   // they are ordinary files
	Hide   Litter = "hide"   // they are stored, but hidden in listings of this head
	Refuse Litter = "refuse" // creating one is refused
)

// isLitter reports whether desktops write files of this name on their own, such as .DS_Store,
// Thumbs.db, ._x or ~$x.
func isLitter(name drive.Name) bool {
	s := strings.ToLower(string(name))
	switch s {
	case ".ds_store", "thumbs.db", "desktop.ini":
		return true
	}
	return strings.HasPrefix(s, "._") || strings.HasPrefix(s, "~$")
}

// checkName fails with drive.Forbidden if a file of that name may not be created.
func (l Litter) checkName(name drive.Name) error {
	if l == Refuse && isLitter(name) {
		return drive.Fail(drive.Forbidden, "reason", "litter")
	}
	return nil
}

// shows reports whether listings include the name. Only Hide leaves out litter, and never a folder.
func (l Litter) shows(name drive.Name, folder bool) bool {
	return l != Hide || folder || !isLitter(name)
}
