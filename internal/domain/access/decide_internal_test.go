package access

import (
	"testing"

	"smartdrive/internal/base/drive"
)

// Only a manager of the root is one whom nothing narrows; that the role ends one day, or that other
// grants do, changes nothing of it. Who manages a folder and merely sees the root is not.
func TestWhoManagesAll(t *testing.T) {
	t.Parallel()
	folder, root := drive.NewID[drive.NodeID](), drive.NewID[drive.NodeID]()
	for name, tc := range map[string]struct {
		steps []step
		all   bool
	}{
		"manager of the root":             {[]step{{node: root, level: 1, root: true, role: Manager}}, true},
		"until some day":                  {[]step{{node: root, level: 1, root: true, role: Manager, expires: 200}}, true},
		"no longer":                       {[]step{{node: root, level: 1, root: true, role: Manager, expires: 50}}, false},
		"manager of a folder who sees":    {[]step{{node: folder, role: Manager}, {node: root, level: 1, root: true, role: Viewer}}, false},
		"shut out below, manager above":   {[]step{{node: folder, role: None}, {node: root, level: 1, root: true, role: Manager}}, true},
		"manager of a folder and no more": {[]step{{node: folder, role: Manager}}, false},
	} {
		if v := decide(tc.steps, 100); v.all != tc.all {
			t.Errorf("%s: all is %v", name, v.all)
		}
	}
}
