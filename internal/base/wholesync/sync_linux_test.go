package wholesync_test

import (
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/wholesync"
)

func TestReachesOnlyOwnFileSystem(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	below := filepath.Join(dir, "below")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	whole, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	for path, want := range map[string]bool{below: true, "/proc": false} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := wholesync.SameFileSystem(whole, info); got != want {
			t.Errorf("%s: %v", path, got)
		}
	}
}
