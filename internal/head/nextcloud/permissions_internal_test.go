package nextcloud

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/domain/access"
)

// A request for permissions gets the role with exactly these permissions, or an error.
func TestRoleMatchesPermissions(t *testing.T) {
	t.Parallel()
	for _, folder := range []bool{true, false} {
		for wish := range permitsAll + 1 {
			role, err := roleOf(wish, folder, access.Editor)
			if err != nil {
				if !drive.IsKind(err, drive.BadRequest) {
					t.Errorf("%d: %v", wish, err)
				}
				continue
			}
			want := wish &^ permitsShare
			if !folder {
				want &^= permitsCreate | permitsDelete
			}
			if got := permissionsOf(role, folder); got != want || role == access.Manager {
				t.Errorf("%d (folder: %v) makes a %s, who has %d", wish, folder, role, got)
			}
		}
	}
	for _, c := range []struct {
		wish   int
		folder bool
		now    access.Role
		want   access.Role
	}{
		{permitsAll, true, access.Manager, access.Manager}, // who is one stays it
		{permitsAll &^ permitsShare, true, access.Manager, access.Editor},
		{permitsAll, true, access.Viewer, access.Editor},
		{19, false, access.Viewer, access.Editor}, // what phones send for a file
		{permitsRead | permitsShare, true, access.Editor, access.Viewer},
		{permitsCreate, true, access.Viewer, access.Uploader},
	} {
		if got, err := roleOf(c.wish, c.folder, c.now); err != nil || got != c.want {
			t.Errorf("%d of a %s: %s (%v), want %s", c.wish, c.now, got, err, c.want)
		}
	}
}
