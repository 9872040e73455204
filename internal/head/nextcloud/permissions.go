package nextcloud

import (
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
)

// The permissions of a share in the protocol, a bit set.
const (
	permitsRead   = 1
	permitsUpdate = 2
	permitsCreate = 4
	permitsDelete = 8
	permitsShare  = 16

	permitsAll = permitsRead | permitsUpdate | permitsCreate | permitsDelete | permitsShare
)

// permissionsOf returns the protocol's permissions of a role; 0 for role none. For a file, those to
// create and delete are left out.
func permissionsOf(role access.Role, folder bool) int {
	n := 0
	switch role {
	case access.Viewer:
		n = permitsRead
	case access.Uploader:
		n = permitsCreate
	case access.Editor:
		n = permitsAll &^ permitsShare
	case access.Manager:
		n = permitsAll
	case access.None:
	}
	if !folder {
		n &^= permitsCreate | permitsDelete
	}
	return n
}

// roleOf returns the role that has exactly the requested permissions. now is the role before. The
// permission to share is ignored, because clients set it by default: a new manager cannot be made
// here, but a manager for whom it is requested stays one. It fails with drive.BadRequest, field
// permissions, if no role matches.
func roleOf(permissions int, folder bool, now access.Role) (access.Role, error) {
	if permissions&permitsShare != 0 && now == access.Manager {
		return now, nil
	}
	wanted := permissions &^ permitsShare
	if !folder {
		wanted &^= permitsCreate | permitsDelete
	}
	var allowed []int
	for _, role := range []access.Role{access.Viewer, access.Uploader, access.Editor} {
		permits := permissionsOf(role, folder)
		if permits == 0 {
			continue
		}
		if permits == wanted {
			return role, nil
		}
		allowed = append(allowed, permits)
	}
	return access.None, drive.BadField("permissions", drive.NotAllowed, "allowed", allowed, "sent", permissions)
}
