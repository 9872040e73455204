package nextcloud

import (
	"smartdrive/internal/base/drive"
	"smartdrive/internal/domain/access"
)

// The permissions of a share, as the protocol adds them up.
const (
	permitsRead   = 1
	permitsUpdate = 2
	permitsCreate = 4
	permitsDelete = 8
	permitsShare  = 16

	permitsAll = permitsRead | permitsUpdate | permitsCreate | permitsDelete | permitsShare
)

// permissionsOf is what a role permits. Of a file, creating and deleting mean nothing.
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

// roleOf is the role that permits what is wished for and nothing else. Sharing on is what managers
// may, and nobody is made one here: clients wish for it without asking. Who is one already stays
// it. BadRequest {field permissions}: there is no such role.
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
	return access.None, drive.Bad("permissions", drive.NotAllowed, "allowed", allowed, "sent", permissions)
}
