package access

import (
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// TestRootManagerIsNotNarrowed: no grant narrows a manager of the root, even if that role or other
// grants expire. A manager of a folder who only views the root can be narrowed.
func TestRootManagerIsNotNarrowed(t *testing.T) {
	t.Parallel()
	folder, root := drive.NewID[drive.NodeID](), drive.NewID[drive.NodeID]()
	for name, tc := range map[string]struct {
		steps []grantStep
		all   bool
	}{
		"manager of the root":             {[]grantStep{{node: root, level: 1, atRoot: true, role: Manager}}, true},
		"until some day":                  {[]grantStep{{node: root, level: 1, atRoot: true, role: Manager, expires: 200}}, true},
		"no longer":                       {[]grantStep{{node: root, level: 1, atRoot: true, role: Manager, expires: 50}}, false},
		"manager of a folder who sees":    {[]grantStep{{node: folder, role: Manager}, {node: root, level: 1, atRoot: true, role: Viewer}}, false},
		"shut out below, manager above":   {[]grantStep{{node: folder, role: None}, {node: root, level: 1, atRoot: true, role: Manager}}, true},
		"manager of a folder and no more": {[]grantStep{{node: folder, role: Manager}}, false},
	} {
		if v := decide(tc.steps, 100); v.all != tc.all {
			t.Errorf("%s: all is %v", name, v.all)
		}
	}
}

// TestDecideIgnoresOrderWithinLevel: the database returns grants of one level in any order. A
// manager's right does not end with another grant, nor with the first of two roles.
func TestDecideIgnoresOrderWithinLevel(t *testing.T) {
	t.Parallel()
	folder, root := drive.NewID[drive.NodeID](), drive.NewID[drive.NodeID]()
	at := func(role Role, expires drive.Time) grantStep {
		return grantStep{node: root, level: 1, atRoot: true, role: role, expires: expires}
	}
	for name, tc := range map[string]struct {
		a, b  grantStep
		until drive.Time
	}{
		"manager and a viewer until":    {at(Manager, 0), at(Viewer, 300), 0},
		"manager until, and a viewer":   {at(Manager, 300), at(Viewer, 200), 300},
		"manager twice":                 {at(Manager, 300), at(Manager, 200), 300},
		"manager, and once more until":  {at(Manager, 0), at(Manager, 200), 0},
		"two until, neither a manager":  {at(Editor, 300), at(Viewer, 200), 200},
		"a manager whose role is over":  {at(Manager, 50), at(Viewer, 200), 200},
		"a manager, and a role is over": {at(Manager, 0), at(Viewer, 50), 0},
	} {
		below := grantStep{node: folder, role: Viewer, expires: 250}
		v, other := decide([]grantStep{below, tc.a, tc.b}, 100), decide([]grantStep{below, tc.b, tc.a}, 100)
		if v != other {
			t.Errorf("%s: %+v, the other way round %+v", name, v, other)
		}
		if want := tc.until; v.until != want {
			t.Errorf("%s: until %d, want %d", name, v.until, want)
		}
	}
}
