package backup

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
)

// readPacks provides contents in read-only packs.
type readPacks struct {
	noPacks
	read func(blobs string) ([]byte, error)
}

func (p readPacks) Read(root, _ string) ([]byte, error) { return p.read(root) }

// unpacking transfers contents with the given text to a new directory.
func unpacking(t *testing.T, text string) (c *transferrer, times *int) {
	t.Helper()
	times = new(int)
	from, to := t.TempDir(), t.TempDir()
	return &transferrer{from: from, to: to, unsyncedDirs: map[string]bool{}, packs: readPacks{read: func(blobs string) ([]byte, error) {
		if blobs != from {
			return nil, drive.Fail(drive.NotFound)
		}
		*times++
		return []byte(text), nil
	}}}, times
}

func bring(t *testing.T, c *transferrer, file, text string) (path string) {
	t.Helper()
	b := content{file: file, size: drive.ByteSize(len(text)), crc: crc32.ChecksumIEEE([]byte(text))}
	if o, err := c.transfer(t.Context(), b, os.Remove); err != nil || o != (transferResult{}) {
		t.Fatal(o, err)
	}
	place, err := contentPath(file)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.to, blobsDir, place)
}

// A content from a pack gets its name after the sync, so an interrupted run leaves no unsynced
// content that the next run would accept.
func TestSmallFileIsRenamedAfterSync(t *testing.T) {
	t.Parallel()
	const text, file = "small", "put-1-01a21e12-c356-79f8-8420-84264dec5658.0000.01"
	c, times := unpacking(t, text)
	for range 2 {
		path := bring(t, c, file, text)
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("before the sync: %v", err)
		}
	}
	if *times != 1 {
		t.Errorf("it was read %d times", *times)
	}
	if err := c.close(); err != nil { // as at the end of a failed run
		t.Fatal(err)
	}
	path := bring(t, c, file, text)
	if err := c.sync(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != text || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 || err != nil {
		t.Errorf("there are %v, %v", left, err)
	}
}

// An interrupted run keeps the small contents that were synced, and the next run continues after
// them.
func TestInterruptedRunKeepsSmallContents(t *testing.T) {
	t.Parallel()
	const text = "small"
	c, times := unpacking(t, text)
	named := func(n int) string {
		return fmt.Sprintf("put-1-01a21e12-c356-79f8-8420-84264dec5658.%04x.01", n)
	}
	for n := range maxUnsynced + 1 {
		bring(t, c, named(n), text)
	}
	if err := c.close(); err != nil { // as at the end of a failed run
		t.Fatal(err)
	}
	*times = 0
	for n := range maxUnsynced + 1 {
		bring(t, c, named(n), text)
	}
	if *times != 1 {
		t.Errorf("%d of %d were read once more, want the last one", *times, maxUnsynced+1)
	}
}

// Small contents copied from files are also synced together.
func TestSmallFilesAreSyncedTogether(t *testing.T) {
	t.Parallel()
	const text, file = "small", "put-1-01a21e12-c356-79f8-8420-84264dec5658"
	c, _ := unpacking(t, text)
	c.copyOnly = true
	place, err := contentPath(file)
	if err != nil {
		t.Fatal(err)
	}
	from := filepath.Join(c.from, blobsDir, place)
	if err := errors.Join(os.MkdirAll(filepath.Dir(from), 0o700), os.WriteFile(from, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	path := bring(t, c, file, text)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) || len(c.unsynced) != 1 {
		t.Errorf("before the sync: %v, of %v", err, c.unsynced)
	}
	if err := c.sync(); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != text || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}
