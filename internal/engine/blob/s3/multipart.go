package s3

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
)

// pageSize is the number of entries requested per listing, the maximum of S3.
const pageSize = 1000

// beginMultipart begins a multipart upload with the key of id's content and returns its id.
func (b *Bucket) beginMultipart(ctx context.Context, id drive.UploadID) (string, error) {
	mpu, err := b.api.NewMultipartUpload(ctx, b.name, b.contentKey(id), minio.PutObjectOptions{})
	return mpu, classify(err)
}

// putPart sends part n, which is number n+1 in the store, and returns its ETag. It rejects an empty
// or overlong ETag.
func (b *Bucket) putPart(ctx context.Context, id drive.UploadID, mpu string, n int, r io.Reader, size int64) (etag string, err error) {
	etag, err = b.sendPart(ctx, b.contentKey(id), mpu, n, r, size)
	if err == nil && (etag == "" || len(etag) > maxETag) {
		err = fmt.Errorf("the store gave part %d the ETag %q", n, etag)
	}
	return etag, classify(err)
}

// putEmptyPart overwrites part n, numbered from 0, with an empty one, because S3 cannot remove a
// single part.
func (b *Bucket) putEmptyPart(ctx context.Context, id drive.UploadID, mpu string, n int) error {
	_, err := b.putPart(ctx, id, mpu, n, newBufferedBody(nil), 0)
	return err
}

// sendPart sends part n of a multipart upload with that key and returns the unclassified error of
// the client library.
func (b *Bucket) sendPart(ctx context.Context, key, mpu string, n int, r io.Reader, size int64) (etag string, err error) {
	ctx, r, sum := unwrapBuffered(ctx, r)
	opts := minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: sum != ""}
	p, err := b.api.PutObjectPart(ctx, b.name, key, mpu, n+1, r, size, opts)
	return p.ETag, err
}

// storedPart is a part of a multipart upload as the store lists it.
type storedPart struct {
	etag string
	size int64
	time time.Time // when it was stored
}

// listParts returns the parts of a multipart upload by number from 0. Empty parts were left by
// Drop.
func (b *Bucket) listParts(ctx context.Context, key, mpu string) (map[int]storedPart, error) {
	all := map[int]storedPart{}
	for marker := 0; ; {
		page, err := b.api.ListObjectParts(ctx, b.name, key, mpu, marker, pageSize)
		if err != nil {
			return nil, classify(err)
		}
		for _, p := range page.ObjectParts {
			all[p.PartNumber-1] = storedPart{etag: trimQuotes(p.ETag), size: p.Size, time: p.LastModified}
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			return all, nil
		}
		marker = page.NextPartNumberMarker
	}
}

// pending is a multipart upload that is neither completed nor aborted.
type pending struct{ key, mpu string }

// eachPending calls fn for the multipart uploads with a key prefix; uploads of one key are
// consecutive. Pages continue after a key, not after an upload, because fn may end the upload and
// the store then rejects it as a marker. The uploads of a page's last key are therefore left to the
// next page.
func (b *Bucket) eachPending(ctx context.Context, prefix string, fn func(pending) error) error {
	for keyMarker, idMarker := "", ""; ; {
		page, err := b.api.ListMultipartUploads(ctx, b.name, prefix, keyMarker, idMarker, "", pageSize)
		if err != nil {
			return classify(err)
		}
		uploads, more := page.Uploads, page.IsTruncated && len(page.Uploads) > 0
		if more {
			last := uploads[len(uploads)-1]
			whole := slices.IndexFunc(uploads, func(u minio.ObjectMultipartInfo) bool { return u.Key == last.Key })
			keyMarker, idMarker = last.Key, last.UploadID // used if the whole page has one key
			if whole > 0 {
				uploads = uploads[:whole]
				keyMarker, idMarker = uploads[whole-1].Key, ""
			}
		}
		for _, u := range uploads {
			if err := fn(pending{key: u.Key, mpu: u.UploadID}); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// pendingOf lists the unfinished multipart uploads with exactly this key; none is no error.
func (b *Bucket) pendingOf(ctx context.Context, key string) (all []pending, err error) {
	err = b.eachPending(ctx, key, func(p pending) error {
		if p.key == key {
			all = append(all, p)
		}
		return nil
	})
	return all, err
}

// abort ends a multipart upload and deletes its parts. A missing upload is not an error.
func (b *Bucket) abort(ctx context.Context, key, mpu string) error {
	err := classify(b.api.AbortMultipartUpload(ctx, b.name, key, mpu))
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// abortAll aborts all multipart uploads of id, including those missing from the journal. It stops
// at the first error.
func (b *Bucket) abortAll(ctx context.Context, id drive.UploadID) error {
	all, err := b.pendingOf(ctx, b.contentKey(id))
	for _, p := range all {
		if err == nil {
			err = b.abort(ctx, p.key, p.mpu)
		}
	}
	return err
}

// stat returns an object's metadata, with the ETag unquoted. It fails with NotFound if the object
// is missing; other errors are classified.
func (b *Bucket) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	info, err := b.api.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	info.ETag = trimQuotes(info.ETag)
	return info, classify(err)
}

// trimQuotes removes the quotes of an ETag.
func trimQuotes(etag string) string {
	if n := len(etag); n >= 2 && etag[0] == '"' && etag[n-1] == '"' {
		return etag[1 : n-1]
	}
	return etag
}
