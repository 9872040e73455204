package local

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob/blobtest"
)

// What is removed while another directory is in place of the contents has not gone: it is removed
// when they are there again.
func TestNothingIsGoneFromAnotherDirectory(t *testing.T) {
	t.Parallel()
	d := open(t)
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
