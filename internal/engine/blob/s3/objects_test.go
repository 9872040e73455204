package s3

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// objectPart is the part size of these tests, in bytes.
const objectPart = 5 << 20 // the least that S3 takes before the last one

func putObject(t *testing.T, o *Objects, name, upload string, n int, b []byte) {
	t.Helper()
	noError(t, o.Put(t.Context(), name, upload, n, drive.ByteSize(len(b)), bytes.NewReader(b)))
}

// TestObjectIsResumedAndPublishedOnce lets a process continue the parts of another one, and both
// publish the object.
func TestObjectIsResumedAndPublishedOnce(t *testing.T) {
	t.Parallel()
	opt := testOptions(t)
	one, other := bucketAt(t, opt).Objects(), bucketAt(t, opt).Objects()
	const name = "acc/id/发票 & more.zip"
	file := blobtest.Bytes(1, objectPart+1000)
	_, err := one.Find(t.Context(), name)
	wantKind(t, err, drive.NotFound)
	upload, parts, err := one.Begin(t.Context(), name, "application/zip")
	noError(t, err)
	if len(parts) != 0 {
		t.Fatalf("a new one has %v", parts)
	}
	stray, err := one.b.api.NewMultipartUpload(t.Context(), one.b.name, one.key(name), minio.PutObjectOptions{}) // begun at the same time
	noError(t, err)
	putObject(t, one, name, upload, 0, file[:objectPart])

	same, parts, err := other.Begin(t.Context(), name, "application/zip")
	noError(t, err)
	if diff := cmp.Diff(map[int]drive.ByteSize{0: objectPart}, parts); diff != "" || same != upload {
		t.Fatalf("the other finds upload %s (not %s, nor %s) with %s", same, upload, stray, diff)
	}
	wantKind(t, other.Publish(t.Context(), name, same, 2), drive.NotFound) // a part is missing
	_, err = other.Find(t.Context(), name)
	wantKind(t, err, drive.NotFound) // nothing is seen of it before
	putObject(t, other, name, same, 1, file[objectPart:])
	noError(t, other.Publish(t.Context(), name, same, 2))
	noError(t, one.Publish(t.Context(), name, upload, 2)) // the reply was lost, or it woke up late

	size, err := one.Find(t.Context(), name)
	noError(t, err)
	body, _, _, err := one.b.api.GetObject(t.Context(), one.b.name, one.key(name), minio.GetObjectOptions{})
	noError(t, err)
	got, err := io.ReadAll(body)
	noError(t, errors.Join(err, body.Close()))
	if !bytes.Equal(got, file) || size != drive.ByteSize(len(file)) {
		t.Errorf("the object has %d bytes (%d are announced) of %d", len(got), size, len(file))
	}
	pending, err := one.b.pendingOf(t.Context(), one.key(name))
	noError(t, err)
	if len(pending) != 0 {
		t.Errorf("%d uploads are left", len(pending))
	}
	var names []string
	list := func() {
		names = nil
		noError(t, one.List(t.Context(), func(name string) error { names = append(names, name); return nil }))
	}
	if list(); !cmp.Equal(names, []string{name}) {
		t.Errorf("the list is %q", names)
	}
	noError(t, other.Remove(t.Context(), name))
	noError(t, other.Remove(t.Context(), name))
	if list(); len(names) != 0 {
		t.Errorf("after the removal there are %q", names)
	}
}

// TestFailedPutLeavesNoPart checks bodies that fail or have a wrong length, and an object removed
// while it is written.
func TestFailedPutLeavesNoPart(t *testing.T) {
	t.Parallel()
	o := bucketAt(t, testOptions(t)).Objects()
	const name = "acc/id/x.zip"
	upload, _, err := o.Begin(t.Context(), name, "application/zip")
	noError(t, err)
	broken := io.MultiReader(bytes.NewReader(make([]byte, 99_999)), failingReader{drive.Fail(drive.DigestMismatch)})
	wantKind(t, o.Put(t.Context(), name, upload, 0, 100_000, broken), drive.DigestMismatch)
	if err := o.Put(t.Context(), name, upload, 0, 100_000, bytes.NewReader(make([]byte, 5))); err == nil {
		t.Error("five bytes were taken for 100,000")
	}
	_, parts, err := o.Begin(t.Context(), name, "application/zip")
	noError(t, err)
	if len(parts) != 0 {
		t.Errorf("parts are left: %v", parts)
	}
	noError(t, o.Remove(t.Context(), name))
	if err := o.Put(t.Context(), name, upload, 0, 5, bytes.NewReader(make([]byte, 5))); err == nil {
		t.Error("a part was taken for an upload that is gone")
	}
	wantKind(t, o.Publish(t.Context(), name, upload, 1), drive.NotFound)
}

// failingReader fails each read.
type failingReader struct{ err error }

func (e failingReader) Read([]byte) (int, error) { return 0, e.err }
