package services_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"example.org/smartdrive/internal/testkit/servicetest"
	"example.org/smartdrive/test/services"
)

// TestInterruptedCompletionIsReverted: a completion of an upload that was interrupted by a kill of
// versitygw is reverted at the next start, and can then be completed.
func TestInterruptedCompletionIsReverted(t *testing.T) {
	t.Parallel()
	root, err := services.Checkout()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s3")
	s, err := services.Open(root, nil).S3(t.Context(), dir, services.Options{Bound: true})
	if err != nil {
		servicetest.Missing(t, servicetest.S3, err.Error())
	}
	t.Cleanup(func() {
		if err := s.Kill(context.Background()); err != nil {
			t.Error(err)
		}
	})
	must(t, s.Start)
	const bucket, key = "smartdrive", "a/b"
	client := func() *minio.Core {
		c, err := minio.NewCore(s.Addr(), &minio.Options{Creds: credentials.NewStaticV4(bucket, bucket, ""), Region: "us-east-1"})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	id, err := client().NewMultipartUpload(t.Context(), bucket, key, minio.PutObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	body := []byte("the only part")
	part, err := client().PutObjectPart(t.Context(), bucket, key, id, 1, bytes.NewReader(body), int64(len(body)), minio.PutObjectPartOptions{})
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Kill)
	for _, tree := range []string{"data", "sidecar"} {
		dirs, err := filepath.Glob(filepath.Join(dir, tree, bucket, ".sgwtmp", "multipart", "*", id))
		if err != nil || tree == "data" && len(dirs) != 1 {
			t.Fatalf("the parts are in %q, %v", dirs, err)
		}
		for _, d := range dirs { // as it is in the middle of a completion
			if err := os.Rename(d, d+"."+strings.Trim(part.ETag, `"`)+"-1.inprogress"); err != nil {
				t.Fatal(err)
			}
		}
	}
	must(t, s.Start)
	done := []minio.CompletePart{{PartNumber: 1, ETag: part.ETag}}
	if _, err := client().CompleteMultipartUpload(t.Context(), bucket, key, id, done, minio.PutObjectOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := client().StatObject(t.Context(), bucket, key, minio.StatObjectOptions{})
	if err != nil || info.Size != int64(len(body)) {
		t.Errorf("the object is %+v, %v", info, err)
	}
}
