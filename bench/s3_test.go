//go:build linux

package bench

import (
	"bytes"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	goredis "github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3"
	"example.org/smartdrive/internal/testkit/servicetest"
)

// BenchmarkS3Upload compares an upload through the staging on S3, with hashing, leases and a
// journal, to writing the same parts to the same store directly with the same client library. It
// then reads the content back.
func BenchmarkS3Upload(b *testing.B) {
	const partSize, parts, lanes = 8 * mib, 16, 4
	data := noise(partSize)
	bucket, api, name := s3Bucket(b)
	var direct, staged, reads sample
	for b.Loop() {
		for range rounds(3) {
			direct.add(mibPerSecond(parts*partSize, func() { s3Direct(b, api, name, data, parts, lanes) }))
			ref := blob.Ref{
				ID: drive.NewID[drive.UploadID](), Begun: drive.TimeOf(time.Now()), PartSize: partSize, Size: parts * partSize,
			}
			staged.add(mibPerSecond(parts*partSize, func() { s3Staged(b, bucket, ref, data, parts, lanes) }))
			reads.add(mibPerSecond(parts*partSize, func() { s3Read(b, bucket, ref) }))
			must(b, bucket.Staging.Remove(b.Context(), ref))
			must(b, bucket.Blobs.Remove(b.Context(), ref.ID.String()))
		}
	}
	table(b, "128 MiB in parts of 8 MiB, 4 at a time, to S3",
		[]any{"MiB/s, the library alone", direct},
		[]any{"MiB/s, through the staging", staged},
		[]any{"staging over library", staged.over(direct)},
		[]any{"MiB/s read back, one reader", reads})
	b.ReportMetric(staged.over(direct).median(), "staging/library")
	b.ReportMetric(0, "ns/op")
}

// mibPerSecond returns the rate at which do processes n bytes.
func mibPerSecond(n int, do func()) float64 {
	began := time.Now()
	do()
	return float64(n) / mib / time.Since(began).Seconds()
}

// s3Bucket returns a separate bucket prefix, and the library's client for the same bucket.
func s3Bucket(b *testing.B) (*s3.Bucket, *minio.Core, string) {
	b.Helper()
	u, err := url.Parse(servicetest.URL(b, servicetest.S3))
	must(b, err)
	redisAt, err := goredis.ParseURL(servicetest.URL(b, servicetest.Redis))
	must(b, err)
	client := goredis.NewClient(redisAt)
	b.Cleanup(func() { must(b, client.Close()) })
	secret, _ := u.User.Password()
	name, place := strings.Trim(u.Path, "/"), servicetest.Unique()
	bucket, err := s3.New(s3.Options{
		Endpoint: u.Host, Bucket: name, Prefix: place, AccessKey: u.User.Username(), SecretKey: secret, Insecure: true,
		Redis: client, Namespace: place,
	})
	must(b, err)
	api, err := minio.NewCore(u.Host, &minio.Options{Creds: credentials.NewStaticV4(u.User.Username(), secret, ""), Region: "us-east-1"})
	must(b, err)
	return bucket, api, name
}

// s3Direct writes the parts directly as a multipart upload.
func s3Direct(b *testing.B, api *minio.Core, bucket string, data []byte, parts, lanes int) {
	b.Helper()
	ctx, key := b.Context(), servicetest.Unique()
	id, err := api.NewMultipartUpload(ctx, bucket, key, minio.PutObjectOptions{})
	must(b, err)
	done := make([]minio.CompletePart, parts)
	var g errgroup.Group
	g.SetLimit(lanes)
	for n := range parts {
		g.Go(func() error {
			r := io.MultiReader(bytes.NewReader(data)) // readable once, like a client's body
			p, err := api.PutObjectPart(ctx, bucket, key, id, n+1, r, int64(len(data)), minio.PutObjectPartOptions{})
			done[n] = minio.CompletePart{PartNumber: n + 1, ETag: p.ETag}
			return err
		})
	}
	must(b, g.Wait())
	_, err = api.CompleteMultipartUpload(ctx, bucket, key, id, done, minio.PutObjectOptions{})
	must(b, err)
	must(b, api.RemoveObject(ctx, bucket, key, minio.RemoveObjectOptions{}))
}

// s3Staged writes the parts through the staging and seals the upload.
func s3Staged(b *testing.B, bucket *s3.Bucket, ref blob.Ref, data []byte, parts, lanes int) {
	b.Helper()
	ctx := b.Context()
	must(b, bucket.Staging.Create(ctx, ref))
	var g errgroup.Group
	g.SetLimit(lanes)
	for n := range parts {
		g.Go(func() error {
			body := blob.NewBody(bytes.NewReader(data), blob.BodyOptions{
				N: n, Offset: drive.ByteSize(n) * ref.PartSize, Size: ref.PartSize,
			})
			_, err := bucket.Staging.Write(ctx, ref, blob.Write{N: n, Gen: 1, Size: ref.PartSize}, body)
			return err
		})
	}
	must(b, g.Wait())
	_, err := bucket.Staging.Fence(ctx, ref, 1)
	must(b, err)
	must(b, bucket.Staging.Seal(ctx, ref, ref.Size))
}

func s3Read(b *testing.B, bucket *s3.Bucket, ref blob.Ref) {
	b.Helper()
	o, err := bucket.Blobs.Open(b.Context(), ref.ID.String())
	must(b, err)
	n, err := io.Copy(io.Discard, io.NewSectionReader(o, 0, int64(ref.Size)))
	must(b, err)
	if n != int64(ref.Size) {
		b.Fatalf("read %d bytes", n)
	}
	must(b, o.Close())
}
