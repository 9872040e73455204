package access

import "smartdrive/internal/base/drive"

// Role is what a grant gives.
type Role string

// The roles. Each but None and Uploader includes the ones before it.
const (
	None     Role = "none"     // shuts out of what a folder above gives
	Viewer   Role = "viewer"   // list, read, versions
	Uploader Role = "uploader" // add files and folders, and see none
	Editor   Role = "editor"   // also create, change, trash and restore
	Manager  Role = "manager"  // also grants, deleting for good
)

// Roles lists the roles, the weakest first.
func Roles() []Role { return []Role{None, Uploader, Viewer, Editor, Manager} }

// ParseRole checks a role that somebody sent.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles() {
		if string(r) == s {
			return r, nil
		}
	}
	return "", drive.Bad("role", drive.NotAllowed, "allowed", Roles(), "sent", s)
}

// Right is a set of things that one may do at a node.
type Right uint8

// The rights.
const (
	See    Right = 1 << iota // list and read
	Create                   // add what was not there
	Change                   // replace, rename, move, trash, restore
	Manage                   // grants, deleting for good

	All = See | Create | Change | Manage
)

// Has reports whether all of want is in r.
func (r Right) Has(want Right) bool { return r&want == want }

// Rights is what a role gives. That of a role that is not known is nothing.
func (r Role) Rights() Right {
	switch r {
	case Viewer:
		return See
	case Uploader:
		return Create
	case Editor:
		return See | Create | Change
	case Manager:
		return All
	case None:
	}
	return 0
}

// Role is the strongest role that r has all of. Viewer and uploader together have no name of their
// own: it is viewer.
func (r Right) Role() Role {
	best := None
	for _, role := range Roles() {
		if role != None && r.Has(role.Rights()) {
			best = role
		}
	}
	return best
}
