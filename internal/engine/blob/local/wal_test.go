package local

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// TestOpenRestoresContentsFromLog loses all unsynced files: they must be restored from the log,
// except removed ones.
func TestOpenRestoresContentsFromLog(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	d.fs.supported = true              // whatever file system this is
	d.pendingSyncs.Store(logMinSingle) // as if others waited
	stored := map[string][]byte{}      // by name
	body := func(size drive.ByteSize) (name string, body blob.Body) {
		name = fmt.Sprintf("put-1-%s", drive.NewID[drive.UploadID]())
		stored[name] = blobtest.Bytes(uint64(len(stored)), size)
		return name, blob.NewBody(bytes.NewReader(stored[name]), blob.BodyOptions{Size: size})
	}
	for _, size := range []drive.ByteSize{0, 1, 10 * drive.KiB, 32 * drive.KiB} {
		name, b := body(size)
		_, err := d.Blobs.Put(t.Context(), name, b)
		noError(t, err)
	}
	var laid []string
	for range fsSyncMinBatch {
		name, b := body(100)
		_, err := d.Blobs.PutUnsynced(t.Context(), name, b, false)
		noError(t, err)
		laid = append(laid, name)
	}
	noError(t, d.Blobs.Sync(t.Context(), laid))
	noError(t, d.Blobs.Remove(t.Context(), laid[0]))
	_, err := d.Blobs.RemoveAll(t.Context(), laid[1:3])
	noError(t, err)

	lost := filepath.Join(t.TempDir(), "lost")
	noError(t, os.Mkdir(lost, dirMode))
	noError(t, os.CopyFS(filepath.Join(lost, walDir), os.DirFS(filepath.Join(d.root, walDir))))
	after := openTestDir(t, func(o *Options) { o.Dir = lost })
	for name, want := range stored {
		path, err := after.blobPath(name)
		noError(t, err)
		got, err := os.ReadFile(path)
		if removed := name == laid[0] || name == laid[1] || name == laid[2]; removed {
			if err == nil {
				t.Errorf("%s came back", name)
			}
		} else if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, %v; want %d", name, len(got), err, len(want))
		}
	}
	if entries, err := os.ReadDir(filepath.Join(lost, walDir)); err != nil || len(entries) > 0 {
		t.Errorf("the log has %v, %v", entries, err)
	}
}

// TestLargeOrSingleContentIsNotLogged checks contents that are too large, or stored without
// concurrent ones.
func TestLargeOrSingleContentIsNotLogged(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	d.fs.supported = true
	put := func(size drive.ByteSize) {
		body := blob.NewBody(bytes.NewReader(blobtest.Bytes(1, size)), blob.BodyOptions{Size: size})
		_, err := d.Blobs.Put(t.Context(), fmt.Sprintf("put-1-%s", drive.NewID[drive.UploadID]()), body)
		noError(t, err)
	}
	put(drive.KiB)
	d.pendingSyncs.Store(logMinSingle)
	put(smallBuffer + 1)
	if _, err := os.Stat(filepath.Join(d.root, walDir)); !os.IsNotExist(err) {
		t.Errorf("the log was used: %v", err)
	}
}

// TestLogDoesNotSettleByFilesAfterFailedSync: after a failed sync of the file system, a file's own
// sync may succeed although bytes are lost.
func TestLogDoesNotSettleByFilesAfterFailedSync(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	d.fs.supported = true
	d.fs.record(d.fs.now(), errFSSyncFailed)
	if err := (walContents{d}).Sync(nil); err == nil {
		t.Error("they are said to be durable")
	}
}

// TestQuarantineOfMisplacedFileKeepsLogEntry quarantines a file at a wrong place with the name of a
// content.
func TestQuarantineOfMisplacedFileKeepsLogEntry(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	d.fs.supported = true
	d.pendingSyncs.Store(logMinSingle)
	name := fmt.Sprintf("put-1-%s", drive.NewID[drive.UploadID]())
	_, err := d.Blobs.Put(t.Context(), name, blob.NewBody(bytes.NewReader(nil), blob.BodyOptions{}))
	noError(t, err)
	odd := blob.Entry{Path: blobsDir + "/copy/" + name}
	noError(t, os.Mkdir(filepath.Join(d.root, blobsDir, "copy"), dirMode))
	noError(t, os.WriteFile(d.abs(odd.Path), nil, fileMode))
	noError(t, d.Blobs.Quarantine(t.Context(), odd))
	if rest := d.wal.Sync(name); len(rest) > 0 {
		t.Error("the log does not hold the content any more")
	}
}

// TestRemoveAllReturnsOnlyForgottenContents checks that contents that stay in the log do not count
// as gone.
func TestRemoveAllReturnsOnlyForgottenContents(t *testing.T) {
	t.Parallel()
	d, err := Open(t.Context(), Options{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)})
	noError(t, err)
	t.Cleanup(func() { _ = d.Close() }) // which fails, too
	d.fs.supported = true
	put := func() string {
		name := blobtest.PutName()
		_, err := d.Blobs.Put(t.Context(), name, blobtest.BodyOf(0, 0, bytes.NewReader(nil)))
		noError(t, err)
		return name
	}
	alone := put()
	d.pendingSyncs.Store(logMinSingle)
	held := put()
	noError(t, os.Mkdir(filepath.Join(d.root, walDir, "1"), dirMode)) // the other segment cannot be made
	d.fs.record(d.fs.now(), errFSSyncFailed)
	if err := d.wal.Close(); err == nil {
		t.Error("the log was settled")
	}
	gone, err := d.Blobs.RemoveAll(t.Context(), []string{held, alone})
	if err == nil || len(gone) != 1 || gone[0] != alone {
		t.Errorf("gone are %q, %v", gone, err)
	}
}
