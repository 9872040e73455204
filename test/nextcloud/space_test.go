package nextcloud

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
)

// The desktop client syncs a space in both directions.
func TestADesktopHasSpaces(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "nextcloudcmd")
	d := newDrive(t)
	d.cli("space", "create", "team")
	d.cli("mkdir", "//team/plans")
	a, b := d.desktop("a"), d.desktop("b")
	a.mustSync()
	if _, err := os.Stat(filepath.Join(a.dir, "Spaces/team/plans")); err != nil {
		t.Fatal(err)
	}
	a.write("Spaces/team/plans/next", []byte("soon"), time.Date(2007, 8, 9, 10, 11, 12, 0, time.UTC))
	a.mustSync()
	b.mustSync()
	equal(t, "a space", tree(t, a.dir), tree(t, b.dir))
	if got, err := os.ReadFile(filepath.Join(b.dir, "Spaces/team/plans/next")); string(got) != "soon" {
		t.Errorf("%q, %v", got, err)
	}
}
