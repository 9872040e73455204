package s3

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"

	"smartdrive/internal/base/drive"
)

// pageSize is how many things a list asks for at a time: the most that S3 gives.
const pageSize = 1000

func (b *Bucket) beginMultipart(ctx context.Context, id drive.UploadID) (string, error) {
	mpu, err := b.api.NewMultipartUpload(ctx, b.name, b.contentKey(id), minio.PutObjectOptions{})
	return mpu, classify(err)
}

// putPart stores part n, whose number at the store is n+1, and returns its ETag.
func (b *Bucket) putPart(ctx context.Context, id drive.UploadID, mpu string, n int, r io.Reader, size int64) (etag string, err error) {
	etag, err = b.sendPart(ctx, b.contentKey(id), mpu, n, r, size)
	if err == nil && (etag == "" || len(etag) > maxETag) {
		err = fmt.Errorf("the store gave part %d the ETag %q", n, etag)
	}
	return etag, classify(err)
}

// putNothing puts an empty part in the place of part n: no part can be removed alone.
func (b *Bucket) putNothing(ctx context.Context, id drive.UploadID, mpu string, n int) error {
	_, err := b.putPart(ctx, id, mpu, n, wholeOf(nil), 0)
	return err
}

// sendPart sends part n of the object with that key; its error is the client's. See putObject.
func (b *Bucket) sendPart(ctx context.Context, key, mpu string, n int, r io.Reader, size int64) (etag string, err error) {
	ctx, r, sum := unwrap(ctx, r)
	opts := minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: sum != ""}
	p, err := b.api.PutObjectPart(ctx, b.name, key, mpu, n+1, r, size, opts)
	return p.ETag, err
}

// storedPart is a part as the store lists it.
type storedPart struct {
	etag string
	size int64
	time time.Time
}

// listParts returns what a multipart upload holds, by number counted from 0. Empty parts are what
// Drop has left.
func (b *Bucket) listParts(ctx context.Context, key, mpu string) (map[int]storedPart, error) {
	all := map[int]storedPart{}
	for marker := 0; ; {
		page, err := b.api.ListObjectParts(ctx, b.name, key, mpu, marker, pageSize)
		if err != nil {
			return nil, classify(err)
		}
		for _, p := range page.ObjectParts {
			all[p.PartNumber-1] = storedPart{etag: trim(p.ETag), size: p.Size, time: p.LastModified}
		}
		if !page.IsTruncated || page.NextPartNumberMarker <= marker {
			return all, nil
		}
		marker = page.NextPartNumberMarker
	}
}

// pending is a multipart upload that is neither completed nor aborted.
type pending struct{ key, mpu string }

// eachPending calls fn for the multipart uploads whose key begins with prefix, those of one key one
// after the other. Pages follow one another by key alone: a store may not know an upload any more
// by which it should go on, for fn may have ended it. So what a page has of its last key waits for
// the next one, where all of it is.
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
			keyMarker, idMarker = last.Key, last.UploadID // a page of one key alone
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

// pendingOf returns the multipart uploads that have exactly this key.
func (b *Bucket) pendingOf(ctx context.Context, key string) (all []pending, err error) {
	err = b.eachPending(ctx, key, func(p pending) error {
		if p.key == key {
			all = append(all, p)
		}
		return nil
	})
	return all, err
}

// abort ends a multipart upload with all its parts. One that is not there is no error.
func (b *Bucket) abort(ctx context.Context, key, mpu string) error {
	err := classify(b.api.AbortMultipartUpload(ctx, b.name, key, mpu))
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// abortAll ends all multipart uploads of id, also those that no journal knows.
func (b *Bucket) abortAll(ctx context.Context, id drive.UploadID) error {
	all, err := b.pendingOf(ctx, b.contentKey(id))
	for _, p := range all {
		if err == nil {
			err = b.abort(ctx, p.key, p.mpu)
		}
	}
	return err
}

// stat returns what the store says of an object; a missing one is NotFound.
func (b *Bucket) stat(ctx context.Context, key string) (minio.ObjectInfo, error) {
	info, err := b.api.StatObject(ctx, b.name, key, minio.StatObjectOptions{})
	info.ETag = trim(info.ETag)
	return info, classify(err)
}

// trim takes the quotes from an ETag.
func trim(etag string) string {
	if n := len(etag); n >= 2 && etag[0] == '"' && etag[n-1] == '"' {
		return etag[1 : n-1]
	}
	return etag
}
