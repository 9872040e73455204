package nextcloud

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"example.org/smartdrive/internal/testkit/servicetest"
)

// The desktop clients have newer files than a restored backup. No file is lost on any side.
func TestRestoreDeletesNothingOnDesktops(t *testing.T) {
	t.Parallel()
	servicetest.Tool(t, "nextcloudcmd")
	d := newDrive(t)
	a, b := d.desktop("a"), d.desktop("b")
	old := time.Date(2005, 6, 7, 8, 9, 10, 0, time.UTC)
	for _, name := range []string{"dir/same", "dir/changed", "dir/moved"} {
		a.write(name, []byte("of the backup: "+name), old)
	}
	a.mustSync()
	b.mustSync()
	data, backup := filepath.Join(d.dir, "data"), filepath.Join(d.dir, "backup")
	d.cli("admin", "backup", backup, "--data", data)
	a.write("dir/new", []byte("new"), old)
	a.write("other/new", []byte("also new"), old)
	a.write("dir/changed", []byte("changed since"), old.Add(time.Hour))
	if err := os.Rename(filepath.Join(a.dir, "dir/moved"), filepath.Join(a.dir, "dir/elsewhere")); err != nil {
		t.Fatal(err)
	}
	a.mustSync()
	b.mustSync()
	d.server.Kill()
	d.cli("admin", "restore", backup, "--force", "--data", data)
	d.start()
	for _, p := range []desktop{a, b, a, b} {
		p.mustSync()
	}
	for _, p := range []desktop{a, b} {
		have := map[string]bool{}
		for name := range tree(t, p.dir) {
			if content, err := os.ReadFile(filepath.Join(p.dir, name)); err == nil {
				have[string(content)] = true
			}
		}
		for _, content := range []string{"of the backup: dir/same", "of the backup: dir/moved", "new", "also new", "changed since"} {
			if !have[content] {
				t.Errorf("%s: %q is gone; there is %q", p.name, content, tree(t, p.dir))
			}
		}
	}
	if got := d.cli("ls", "/other"); !strings.Contains(got, "new") {
		t.Errorf("the drive has: %s", got)
	}
}
