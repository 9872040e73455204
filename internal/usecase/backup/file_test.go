package backup

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"smartdrive/internal/base/drive"
)

// unpacking carries to a new directory what says of every content that it has text.
func unpacking(t *testing.T, text string) (c *carrier, times *int) {
	t.Helper()
	times = new(int)
	from, to := t.TempDir(), t.TempDir()
	return &carrier{from: from, to: to, touched: map[string]bool{}, packed: func(blobs, _ string) ([]byte, error) {
		if blobs != from {
			return nil, drive.Fail(drive.NotFound)
		}
		*times++
		return []byte(text), nil
	}}, times
}

func bring(t *testing.T, c *carrier, file string, size drive.ByteSize) (path string) {
	t.Helper()
	if err := c.bring(t.Context(), file, size, os.Remove); err != nil {
		t.Fatal(err)
	}
	place, err := placeOf(file)
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.to, blobsDir, place)
}

// A content of a pack has its name once it is durable: a run that is ended before leaves none that
// the next one would take for it.
func TestWhatIsUnpackedHasNoNameBeforeItIsDurable(t *testing.T) {
	t.Parallel()
	const text, file = "small", "put-1-01a21e12-c356-79f8-8420-84264dec5658.0000.01"
	c, times := unpacking(t, text)
	for range 2 {
		path := bring(t, c, file, drive.ByteSize(len(text)))
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("before the sync: %v", err)
		}
	}
	if *times != 1 {
		t.Errorf("it was read %d times", *times)
	}
	if err := c.close(); err != nil { // as at the end of a run that has failed
		t.Fatal(err)
	}
	path := bring(t, c, file, drive.ByteSize(len(text)))
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
