package s3

import (
	"log/slog"
	"slices"
	"testing"

	"example.org/smartdrive/internal/engine/blob/blobtest"
)

// newFakeBucket returns a Bucket over an in-memory store with n objects, and their names.
func newFakeBucket(t testing.TB, n int) (*Bucket, *blobtest.Bucket, []string) {
	t.Helper()
	fake := blobtest.NewBucket(t)
	b := bucketAt(t, Options{
		Endpoint: fake.Host, Bucket: "bucket", Prefix: "p", AccessKey: "a", SecretKey: "s", Insecure: true, Log: slog.New(slog.DiscardHandler),
	})
	names := make([]string, n)
	for i := range names {
		names[i] = blobtest.PutName()
		fake.AddObject(keyOf(t, b, names[i]), 1)
	}
	return b, fake, names
}

func keyOf(t testing.TB, b *Bucket, name string) string {
	t.Helper()
	key, err := b.blobKey(name)
	noError(t, err)
	return key
}

// TestRemoveAllUsesOneRequest removes a thousand objects; those that the store keeps or does not
// mention are not gone.
func TestRemoveAllUsesOneRequest(t *testing.T) {
	t.Parallel()
	b, fake, names := newFakeBucket(t, 1000)
	stuck := names[500]
	fake.Stuck = map[string]bool{keyOf(t, b, stuck): true}
	gone, err := b.Blobs.RemoveAll(t.Context(), names)
	if err == nil || len(gone) != 999 || slices.Contains(gone, stuck) {
		t.Errorf("%d are gone, %v", len(gone), err)
	}
	if n := fake.Requests("delete many"); n != 1 || fake.Requests("delete") != 0 || len(fake.Keys()) != 1 {
		t.Errorf("%d requests, %d objects are left", n, len(fake.Keys()))
	}
	fake.Stuck = nil
	if gone, err = b.Blobs.RemoveAll(t.Context(), names); err != nil || len(gone) != 1000 || len(fake.Keys()) != 0 {
		t.Errorf("the fault is gone: %d of 1000, %v", len(gone), err)
	}
}

// TestRemoveAllWithoutDeleteObjects checks that an unsupported request is made only once.
func TestRemoveAllWithoutDeleteObjects(t *testing.T) {
	t.Parallel()
	b, fake, names := newFakeBucket(t, 100)
	fake.Single = true
	for _, some := range [][]string{names[:50], names[50:]} {
		if gone, err := b.Blobs.RemoveAll(t.Context(), some); err != nil || len(gone) != 50 {
			t.Errorf("%d of 50 are gone, %v", len(gone), err)
		}
	}
	if n := fake.Requests("delete"); n != 100 || !b.noBulkDelete.Load() || len(fake.Keys()) != 0 {
		t.Errorf("%d requests for 100 objects, %d are left", n, len(fake.Keys()))
	}
}
