package local

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/blobtest"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// tmpfs mounts a file system on dir for one test. Only root can; with SMARTDRIVE_TEST_REQUIRE=tmpfs
// the test fails instead of being skipped.
func tmpfs(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		servicetest.Missing(t, "tmpfs", fmt.Sprintf("a small file system of its own cannot be mounted: %v", err))
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tmpfs(t, root, "size=3m")
	d := openTestDir(t, func(o *Options) { o.Dir = root })
	ref := blobtest.NewRef(8 * blobtest.PartSize)
	noError(t, d.Staging.Create(t.Context(), ref))
	file := blobtest.Bytes(1, ref.Size)
	var held int
	for ; ; held++ {
		if _, err := blobtest.Send(t.Context(), d.Staging, ref, 1, held, blobtest.Slice(file, held)); err != nil {
			wantKind(t, err, drive.DiskFull)
			break
		}
	}
	if held == 0 {
		t.Fatal("no part fits on 3 MiB")
	}
	if got := load(t, d, ref); got.Held != drive.ByteSize(held)*blobtest.PartSize {
		t.Errorf("held %d with %d parts: the torn one stays", got.Held, held)
	}
	left := blobtest.Bytes(2, 2*drive.MiB)
	_, err := d.Blobs.Put(t.Context(), blobtest.PutName(), blobtest.BodyOf(0, len(left), bytes.NewReader(left)))
	wantKind(t, err, drive.DiskFull)

	// Not a byte is left: what frees room must not need any.
	fillUp(t, root)
	wantKind(t, d.Staging.Create(t.Context(), blobtest.NewRef(1)), drive.DiskFull)
	noError(t, d.Staging.Drop(t.Context(), ref, 1, 0))
	noError(t, d.Staging.Remove(t.Context(), ref))

	// And all goes on.
	ref = blobtest.NewRef(2 * blobtest.PartSize)
	noError(t, d.Staging.Create(t.Context(), ref))
	for n := range 2 {
		send(t, d, ref, 1, n, blobtest.Slice(file, n))
	}
	noError(t, d.Staging.Seal(t.Context(), ref, ref.Size))
}

// fillUp writes until the file system of dir is full.
func fillUp(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(dir + "/fill")
	noError(t, err)
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !isFull(err) {
		t.Fatal(err)
	}
	noError(t, f.Close())
}

func TestOpenRefusesTwoFileSystems(t *testing.T) {
	t.Parallel()
	d := openTestDir(t)
	tmpfs(t, d.abs(blobsDir), "size=1m")
	_, err := Open(t.Context(), Options{Dir: d.root})
	if err == nil || !strings.Contains(err.Error(), "must be on one file system") {
		t.Errorf("error is %v", err)
	}
}

// TestFullDiskDisablesLog checks that on a full disk small contents are stored without the log as
// long as they fit, and that removed contents and the log free their space.
func TestFullDiskDisablesLog(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	tmpfs(t, root, "size=18m")
	d := openTestDir(t, func(o *Options) { o.Dir = root })
	d.fs.supported = true
	d.pendingSyncs.Store(logMinSingle)
	var names []string
	for {
		name := blobtest.PutName()
		b := blobtest.Bytes(1, 20*drive.KiB)
		if _, err := d.Blobs.Put(t.Context(), name, blobtest.BodyOf(0, len(b), bytes.NewReader(b))); err != nil {
			wantKind(t, err, drive.DiskFull)
			break
		}
		names = append(names, name)
	}
	noError(t, d.Blobs.Remove(t.Context(), names[0]))
	gone, err := d.Blobs.RemoveAll(t.Context(), names[1:])
	if err != nil || len(gone) != len(names)-1 {
		t.Errorf("%d of %d are gone, %v", len(gone), len(names)-1, err)
	}
	free, err := d.Blobs.Free(t.Context())
	if noError(t, err); free < 17*drive.MiB {
		t.Errorf("%d bytes are free of 18 MiB, after %d contents", free, len(names))
	}
}
