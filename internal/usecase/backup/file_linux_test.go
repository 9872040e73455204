package backup

import (
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/testkit/disktest"
)

// Contents on another disk are synced there.
func TestBlobsDirectoryIsLink(t *testing.T) {
	t.Parallel()
	disk := disktest.New(t, "4096")
	const text, file = "small", "put-1-01a21e12-c356-79f8-8420-84264dec5658.0000.01"
	c, _ := unpacking(t, text)
	if err := os.Symlink(disk.Root, filepath.Join(c.to, blobsDir)); err != nil {
		t.Fatal(err)
	}
	path := bring(t, c, file, text)
	if err := c.sync(); err != nil {
		t.Fatal(err)
	}
	after := disk.CutPower(t)
	defer after.Unmount(t)
	rel, err := filepath.Rel(filepath.Join(c.to, blobsDir), path)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(after.Root, rel)); string(b) != text || err != nil {
		t.Errorf("after the power has gone: %q, %v", b, err)
	}
}
