package s3

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

func staged(t *testing.T, s *Staging) (all []blob.Entry) {
	t.Helper()
	noError(t, s.ListStaged(t.Context(), func(x blob.Entry) error {
		all = append(all, x)
		return nil
	}))
	return all
}

// TestQuarantineKeepsBytesOfUnknownUpload: unexplained bytes are kept (B3), although S3 cannot move
// a multipart upload.
func TestQuarantineKeepsBytesOfUnknownUpload(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	id := drive.NewID[drive.UploadID]()
	mpu, err := b.beginMultipart(t.Context(), id)
	noError(t, err)
	want := blobtest.Bytes(1, testPart+10)
	for n := range 2 {
		part := slicePart(want, n)
		_, err := b.putPart(t.Context(), id, mpu, n, bytes.NewReader(part), int64(len(part)))
		noError(t, err)
	}
	found := staged(t, b.Staging)
	if len(found) != 1 || found[0].Name != id.String() || found[0].Size != drive.ByteSize(len(want)) {
		t.Fatalf("found %+v", found)
	}
	for range 2 { // redone
		noError(t, b.Staging.QuarantineStaged(t.Context(), found[0]))
	}
	if left := staged(t, b.Staging); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
	_, err = b.Blobs.Open(t.Context(), id.String())
	wantKind(t, err, drive.NotFound)
	if got := readKey(t, b, b.key(b.quarantinePlace(found[0].Path))); !bytes.Equal(got, want) {
		t.Errorf("%d bytes in quarantine, want %d", len(got), len(want))
	}
}

func readKey(t *testing.T, b *Bucket, key string) []byte {
	t.Helper()
	body, _, _, err := b.api.GetObject(t.Context(), b.name, key, minio.GetObjectOptions{})
	noError(t, err)
	got, err := io.ReadAll(body)
	noError(t, err)
	noError(t, body.Close())
	return got
}

// TestQuarantineNeverReplacesContent: completing a stray multipart upload must not replace content
// (B1), and it must not be destroyed (B3).
func TestQuarantineNeverReplacesContent(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	for n := range 2 {
		send(t, b.Staging, ref, n, slicePart(file, n))
	}
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	noError(t, b.Staging.Remove(t.Context(), ref))
	mpu, err := b.beginMultipart(t.Context(), ref.ID)
	noError(t, err)
	_, err = b.putPart(t.Context(), ref.ID, mpu, 0, bytes.NewReader(make([]byte, 10)), 10)
	noError(t, err)
	found := staged(t, b.Staging)
	if len(found) != 1 {
		t.Fatalf("found %+v", found)
	}
	noError(t, b.Staging.QuarantineStaged(t.Context(), found[0]))
	wantContent(t, b, ref, file)
	if left := staged(t, b.Staging); len(left) != 1 || left[0] != found[0] {
		t.Errorf("left %+v", left)
	}
	noError(t, b.Staging.Remove(t.Context(), ref)) // by who knows that it has ended
	wantNothingStaged(t, b)
	wantContent(t, b, ref, file)
}

// TestQuarantineKeepsIncompletableUpload: parts that are too small to be completed are not
// destroyed.
func TestQuarantineKeepsIncompletableUpload(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	id := drive.NewID[drive.UploadID]()
	mpu, err := b.beginMultipart(t.Context(), id)
	noError(t, err)
	for n := range 2 {
		_, err = b.putPart(t.Context(), id, mpu, n, bytes.NewReader(make([]byte, 10)), 10)
		noError(t, err)
	}
	found := staged(t, b.Staging)
	noError(t, b.Staging.QuarantineStaged(t.Context(), found[0]))
	if left := staged(t, b.Staging); len(left) != 1 || left[0].Size != 20 {
		t.Errorf("left %+v", left)
	}
}

func TestListStagedIncludesForeignKeys(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	mpu, err := b.api.NewMultipartUpload(t.Context(), b.name, b.key(blobsDir+"what/is/this"), minio.PutObjectOptions{})
	noError(t, err)
	_, err = b.api.PutObjectPart(t.Context(), b.name, b.key(blobsDir+"what/is/this"), mpu, 1, bytes.NewReader([]byte("bytes")), 5,
		minio.PutObjectPartOptions{})
	noError(t, err)
	found := staged(t, b.Staging)
	if len(found) != 1 || found[0].Name != "" || found[0].Size != 5 {
		t.Fatalf("found %+v", found)
	}
	noError(t, b.Staging.QuarantineStaged(t.Context(), found[0]))
	if left := staged(t, b.Staging); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// TestRemoveAbortsDuplicateMultipartUploads: a crash in Create, or two concurrent ones, leave a
// second multipart upload.
func TestRemoveAbortsDuplicateMultipartUploads(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	_, err := b.beginMultipart(t.Context(), ref.ID)
	noError(t, err)
	for n := range 2 {
		send(t, b.Staging, ref, n, slicePart(file, n))
		loseJournal(t, b.Staging, ref) // the one with parts is found again
	}
	if got, err := b.Staging.Load(t.Context(), ref); err != nil || len(got.Parts) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if all := staged(t, b.Staging); len(all) != 1 {
		t.Errorf("one upload is listed as %+v", all)
	}
	noError(t, b.Staging.Seal(t.Context(), ref, ref.Size))
	noError(t, b.Staging.Remove(t.Context(), ref))
	wantNothingStaged(t, b)
	wantContent(t, b, ref, file)
}

// TestPartWithWrongDigestIsNotStored checks that the store lists nothing of such a part.
func TestPartWithWrongDigestIsNotStored(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref, file := newUpload(t, b.Staging)
	part := slicePart(file, 0)
	w := blobtest.WriteOf(1, 0, part)
	for name, body := range map[string]blob.Body{
		"torn":  bodyOf(0, len(part), bytes.NewReader(part[:len(part)-1])),
		"wrong": wrongAtEnd{bodyOf(0, len(part), bytes.NewReader(part))},
	} {
		if _, err := b.Staging.Write(t.Context(), ref, w, body); err == nil {
			t.Errorf("a %s part is accepted", name)
		}
	}
	all, err := b.pendingOf(t.Context(), b.contentKey(ref.ID))
	noError(t, err)
	if parts, err := b.listParts(context.Background(), all[0].key, all[0].mpu); err != nil || len(parts) > 0 {
		t.Errorf("stored: %v, %v", parts, err)
	}
	if got, err := b.Staging.Load(t.Context(), ref); err != nil || got.Held != 0 {
		t.Errorf("%+v, %v", got, err)
	}
}

// wrongAtEnd is a body whose digests do not match.
type wrongAtEnd struct{ blob.Body }

func (wrongAtEnd) Finish() (blob.Part, error) { return blob.Part{}, drive.Fail(drive.DigestMismatch) }

func TestCreateRejectsSmallPartSize(t *testing.T) {
	t.Parallel()
	b := openBucket(t)
	ref := blobtest.NewRef(10 * drive.MiB)
	for ref.PartSize = drive.MiB; ref.PartSize < b.Staging.Caps().MinPart; ref.PartSize *= 2 {
		if err := b.Staging.Create(t.Context(), ref); err == nil {
			t.Errorf("parts of %d are taken", ref.PartSize)
		}
	}
	noError(t, b.Staging.Create(t.Context(), ref))
	ref.Size = blob.UnknownSize
	_, err := blobtest.Send(t.Context(), b.Staging, ref, 1, maxParts, []byte("x"))
	wantKind(t, err, drive.PartRange)
}
