package s3

import (
	"bytes"
	"context"
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// TestDocumentedRestoreBringsBackDeletedContents follows the restore in docs/cluster.md: with the
// objects that were deleted since the dump, the contents are those of the dump, even if packs were
// rewritten. In the first variant a copy of the bucket keeps the objects, in the second the
// bucket's versions.
func TestDocumentedRestoreBringsBackDeletedContents(t *testing.T) {
	t.Parallel()
	for how, keep := range map[string]func(*testing.T, *Bucket) (again func() map[string][]byte){"copy": withCopy, "versions": withVersions} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			o := testOptions(t)
			if how == "versions" {
				o.Bucket = servicetest.Unique()
			}
			b := bucketAt(t, o)
			if how == "versions" {
				makeVersioned(t, b)
			}
			contents := some(60)
			names := settled(t, b, contents...)
			restore := keep(t, b)
			// The dump is made here.
			for part := range slices.Chunk(names[:50], 10) {
				gone, err := b.Blobs.RemoveAll(t.Context(), part)
				if err != nil || len(gone) != len(part) {
					t.Fatalf("%d are gone, %v", len(gone), err)
				}
				settled(t, b, []byte("later"))
			}
			if _, err := b.Blobs.Open(t.Context(), names[0]); !drive.IsKind(err, drive.NotFound) {
				t.Fatalf("it is not deleted: %v", err)
			}
			for key, object := range restore() {
				noError(t, b.create(t.Context(), key, object))
			}
			b = bucketAt(t, o)
			for i, name := range names {
				if got := readAll(t, b, name); !bytes.Equal(got, contents[i]) {
					t.Errorf("content %d differs", i)
				}
			}
			listed := map[string]bool{}
			noError(t, b.Blobs.List(t.Context(), func(s blob.Entry) error {
				listed[s.Name] = true
				return nil
			}))
			for _, name := range names {
				if !listed[name] {
					t.Errorf("%s is not listed", name)
				}
			}
		})
	}
}

// withCopy copies the bucket, and returns a function for the objects that were deleted since.
func withCopy(t *testing.T, b *Bucket) func() map[string][]byte {
	t.Helper()
	read := func() map[string][]byte {
		all := map[string][]byte{}
		for _, place := range objects(t, b) {
			body, _, _, err := b.api.GetObject(t.Context(), b.name, b.key(place), minio.GetObjectOptions{})
			noError(t, err)
			all[b.key(place)], err = io.ReadAll(body)
			noError(t, err)
			noError(t, body.Close())
		}
		return all
	}
	before := read()
	return func() map[string][]byte {
		lost, now := maps.Clone(before), read()
		maps.DeleteFunc(lost, func(key string, was []byte) bool {
			is, there := now[key]
			if there && !bytes.Equal(was, is) {
				t.Errorf("%s has changed", key)
			}
			return there
		})
		return lost
	}
}

func makeVersioned(t *testing.T, b *Bucket) {
	t.Helper()
	noError(t, b.api.MakeBucket(t.Context(), b.name, minio.MakeBucketOptions{}))
	if err := b.api.EnableVersioning(t.Context(), b.name); err != nil {
		t.Skipf("the store has no versions: %v", err)
	}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		for o := range b.api.Client.ListObjects(ctx, b.name, minio.ListObjectsOptions{Recursive: true, WithVersions: true}) {
			_ = b.api.RemoveObject(ctx, b.name, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID})
		}
		if err := b.api.RemoveBucket(ctx, b.name); err != nil {
			t.Logf("the bucket stays: %v", err)
		}
	})
}

// withVersions returns a function that brings back deleted objects by removing their delete
// markers.
func withVersions(t *testing.T, b *Bucket) func() map[string][]byte {
	return func() map[string][]byte {
		marks := 0
		for o := range b.api.Client.ListObjects(t.Context(), b.name, minio.ListObjectsOptions{Prefix: b.key(blobsDir), Recursive: true, WithVersions: true}) {
			noError(t, o.Err)
			if o.IsDeleteMarker && o.IsLatest {
				marks++
				noError(t, b.api.RemoveObject(t.Context(), b.name, o.Key, minio.RemoveObjectOptions{VersionID: o.VersionID}))
			}
		}
		if marks == 0 {
			t.Error("nothing was deleted")
		}
		return nil
	}
}
