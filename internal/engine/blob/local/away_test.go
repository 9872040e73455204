package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// TestContentsAreNotMissingWhenBlobsDirectoryIsReplaced checks that contents which are read or
// removed while another directory is in place do not count as missing or gone, and can be removed
// when the directory is back.
func TestContentsAreNotMissingWhenBlobsDirectoryIsReplaced(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	names := make([]string, 2)
	for i := range names {
		names[i] = blobtest.PutName()
		b := blobtest.Bytes(uint64(i), 10)
		_, err := d.Blobs.Put(t.Context(), names[i], blobtest.BodyOf(0, len(b), bytes.NewReader(b)))
		noError(t, err)
	}
	blobs := filepath.Join(d.root, blobsDir)
	away := blobs + ".away"
	for _, empty := range []bool{true, false} {
		noError(t, os.Rename(blobs, away))
		if empty {
			noError(t, os.Mkdir(blobs, dirMode))
		}
		if gone, err := d.Blobs.RemoveAll(t.Context(), names); len(gone) > 0 || !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("RemoveAll: %v, %v", gone, err)
		}
		if err := d.Blobs.Remove(t.Context(), names[0]); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("Remove: %v", err)
		}
		for _, name := range names {
			if _, err := d.Blobs.Open(t.Context(), name); !drive.IsKind(err, drive.Unavailable) {
				t.Errorf("Open: %v", err)
			}
			if _, err := d.Blobs.Stat(t.Context(), name); !drive.IsKind(err, drive.Unavailable) {
				t.Errorf("Stat: %v", err)
			}
		}
		noError(t, errors.Join(os.RemoveAll(blobs), os.Rename(away, blobs)))
	}
	gone, err := d.Blobs.RemoveAll(t.Context(), names)
	if len(gone) != len(names) || err != nil {
		t.Errorf("RemoveAll: %v, %v", gone, err)
	}
	for _, name := range names {
		if _, err := d.Blobs.Stat(t.Context(), name); !drive.IsKind(err, drive.NotFound) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPutFailsWhenBlobsDirectoryIsReplaced: content put into another directory would be hidden when
// the real one is back.
func TestPutFailsWhenBlobsDirectoryIsReplaced(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	body := func() blob.Body { return blobtest.BodyOf(0, 3, strings.NewReader("new")) }
	names := map[string]string{}
	for _, how := range []string{"put", "alone", "many", "received"} {
		// where this process has made a directory it makes none again
		first := blobtest.PutName()
		digits := "00"
		if first[len(first)-4:len(first)-2] == digits {
			digits = "01" // another name in the same shard
		}
		names[how] = first[:len(first)-4] + digits + first[len(first)-2:]
		_, err := d.Blobs.Put(t.Context(), first, body())
		noError(t, err)
	}
	blobs := filepath.Join(d.root, blobsDir)
	away := blobs + ".away"
	noError(t, os.Rename(blobs, away))
	noError(t, os.Mkdir(blobs, dirMode))
	for shard := range names {
		noError(t, os.MkdirAll(filepath.Join(blobs, names[shard][len(names[shard])-2:]), dirMode)) // of what once lay there
	}
	lay := func(name string, many bool) error {
		if _, err := d.Blobs.PutUnsynced(t.Context(), name, body(), many); err != nil {
			return err
		}
		return d.Blobs.Sync(t.Context(), []string{name})
	}
	for how, do := range map[string]func(name string) error{
		"put":      func(name string) error { _, err := d.Blobs.Put(t.Context(), name, body()); return err },
		"alone":    func(name string) error { return lay(name, false) },
		"many":     func(name string) error { return lay(name, true) },
		"received": func(name string) error { _, err := d.Blobs.PutAtomic(t.Context(), name, body()); return err },
	} {
		if err := do(names[how]); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("%s: %v", how, err)
		}
	}
	noError(t, errors.Join(os.RemoveAll(blobs), os.Rename(away, blobs)))
	for how, name := range names {
		if _, err := d.Blobs.Put(t.Context(), name, body()); err != nil {
			t.Errorf("%s, when the contents are there again: %v", how, err)
		}
	}
}
