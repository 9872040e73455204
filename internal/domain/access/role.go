package access

import "example.org/smartdrive/internal/base/drive"

// Role names the set of rights that a grant gives to its principal.
type Role string

// Each role except None and Uploader includes the rights of the ones before it.
const (
	None     Role = "none"     // denies access that a folder above gives
	Viewer   Role = "viewer"   // list, read, versions
	Uploader Role = "uploader" // add files and folders without seeing any
	Editor   Role = "editor"   // also create, change, trash and restore
	Manager  Role = "manager"  // also manage grants and delete permanently
)

// Roles returns the roles, weakest first.
func Roles() []Role { return []Role{None, Uploader, Viewer, Editor, Manager} }

// ParseRole parses a role; BadRequest if it is unknown.
func ParseRole(s string) (Role, error) {
	for _, r := range Roles() {
		if string(r) == s {
			return r, nil
		}
	}
	return "", drive.BadField("role", drive.NotAllowed, "allowed", Roles(), "sent", s)
}

// Right is a set of rights at a node.
type Right uint8

// The rights.
const (
	See    Right = 1 << iota // list and read
	Create                   // add new nodes
	Change                   // replace, rename, move, trash, restore
	Manage                   // manage grants, delete permanently

	All = See | Create | Change | Manage
)

// Has reports whether r includes all of want.
func (r Right) Has(want Right) bool { return r&want == want }

// Rights returns the rights of a role; none for an unknown role.
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

// Role returns the strongest role whose rights r includes. See and Create together are Viewer,
// because no role has exactly both.
func (r Right) Role() Role {
	best := None
	for _, role := range Roles() {
		if role != None && r.Has(role.Rights()) {
			best = role
		}
	}
	return best
}
