package servicetest

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// EmptyBucket deletes everything below a prefix of a bucket at the end of the test. Call it before
// the writer is created, so that the writer ends first.
func EmptyBucket(t testing.TB, bucket *url.URL, prefix string) {
	t.Helper()
	at := *bucket
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := deleteObjects(ctx, &at, prefix+"/"); err != nil {
			t.Log("something is left in the bucket:", err)
		}
	})
}

func deleteObjects(ctx context.Context, at *url.URL, prefix string) error {
	secret, _ := at.User.Password()
	bucket := strings.Trim(at.Path, "/")
	c, err := minio.New(at.Host, &minio.Options{
		Creds: credentials.NewStaticV4(at.User.Username(), secret, ""), Secure: at.Query().Get("insecure") != "true", Region: "us-east-1",
	})
	if err != nil {
		return err
	}
	for open := range c.ListIncompleteUploads(ctx, bucket, prefix, true) {
		if open.Err != nil {
			return open.Err
		}
		err = errors.Join(err, c.RemoveIncompleteUpload(ctx, bucket, open.Key))
	}
	for failed := range c.RemoveObjects(ctx, bucket, c.ListObjects(ctx, bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}), minio.RemoveObjectsOptions{}) {
		err = errors.Join(err, failed.Err)
	}
	return err
}
