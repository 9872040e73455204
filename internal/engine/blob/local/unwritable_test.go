//go:build linux

package local_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/engine/blob/local"
	"example.org/smartdrive/internal/testkit/usertest"
)

// TestUnwritableDirectoryIsUnavailable checks the reason of the error, and that CheckWritable names
// the directory.
func TestUnwritableDirectoryIsUnavailable(t *testing.T) {
	t.Parallel()
	if usertest.RunUnprivileged(t) { // root may write everywhere
		return
	}
	root := t.TempDir()
	d, err := local.Open(t.Context(), local.Options{Dir: root, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := local.CheckWritable(root); err != nil {
		t.Error(err)
	}
	chmod := func(mode fs.FileMode) {
		err := filepath.WalkDir(filepath.Join(root, "blobs"), func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				err = os.Chmod(path, mode)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	chmod(0o500)
	defer chmod(0o700)
	for _, size := range []drive.ByteSize{10, 100_000} {
		body := blobtest.BodyOf(0, int(size), bytes.NewReader(blobtest.Bytes(1, size)))
		_, err := d.Blobs.Put(t.Context(), d.Blobs.ReserveName(blobtest.PutName(), size), body)
		var known *drive.Error
		if !errors.As(err, &known) || known.Kind != drive.Unavailable || known.Args["reason"] != "store-unwritable" {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	if err := local.CheckWritable(root); err == nil {
		t.Error("it is said to be writable")
	}
}
