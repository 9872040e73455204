package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
)

// maxSkew is the largest accepted clock difference. Stores refuse requests older than 15 minutes.
const maxSkew = 5 * time.Minute

// Check tests whether the bucket is usable: it exists, objects can be written, read, listed and
// deleted, multipart uploads can be begun, filled, listed and aborted, and the clocks agree. Each
// line of the error describes one problem for the operator. Check also detects whether the store
// supports If-None-Match.
func (b *Bucket) Check(ctx context.Context) error {
	if err := b.checkClock(ctx); err != nil {
		return err
	}
	found, err := b.api.BucketExists(ctx, b.name)
	if err != nil {
		return b.checkError("be reached", err)
	}
	if !found {
		return fmt.Errorf("the bucket %s does not exist: create it, or name another one", b.name)
	}
	key := b.key(probeDir + randomID())
	err = errors.Join(b.checkObjects(ctx, key), b.checkMultipart(ctx, key))
	if err := b.remove(ctx, key); err != nil {
		return errors.Join(err, b.checkError("have objects deleted (s3:DeleteObject)", err))
	}
	return err
}

// checkError returns the error for one failed step of Check.
func (b *Bucket) checkError(what string, err error) error {
	return fmt.Errorf("the bucket %s cannot %s: %w", b.name, what, classify(err))
}

// checkObjects writes an object at key, reads it back and lists it; the caller deletes it. Each
// failure names the missing permission. If the store ignores If-None-Match, it logs a warning and
// sets b.noIfNoneMatch.
func (b *Bucket) checkObjects(ctx context.Context, key string) error {
	text := []byte("probe\n")
	put := func(opts minio.PutObjectOptions) error {
		_, err := b.api.PutObject(ctx, b.name, key, bytes.NewReader(text), int64(len(text)), "", "", opts)
		return err
	}
	if err := put(minio.PutObjectOptions{}); err != nil {
		return b.checkError("have objects written (s3:PutObject)", err)
	}
	body, _, _, err := b.api.GetObject(ctx, b.name, key, minio.GetObjectOptions{})
	if err != nil {
		return b.checkError("have objects read (s3:GetObject)", err)
	}
	got, err := io.ReadAll(body)
	if err = errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, text) {
		return b.checkError("be trusted: what is read is not what was written", err)
	}
	for o := range b.api.ListObjectsIter(ctx, b.name, minio.ListObjectsOptions{Prefix: key, Recursive: true}) {
		if o.Err != nil {
			return b.checkError("be listed (s3:ListBucket)", o.Err)
		}
	}
	opts := minio.PutObjectOptions{}
	opts.SetMatchETagExcept("*")
	if err := put(opts); !hasCode(err, minio.PreconditionFailed) {
		b.noIfNoneMatch.Store(true)
		b.log.Warn("the store ignores If-None-Match; each new name is looked up before it is written", "bucket", b.name)
	}
	return nil
}

// checkClock fails if the local clock differs by more than maxSkew from the Date header of an
// unsigned request. It returns nil if the store is unreachable or sends no date. Stores answer a
// signed request with a wrong time by "access denied", as if a permission were missing.
func (b *Bucket) checkClock(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodHead, b.api.EndpointURL().String(), http.NoBody)
	if err != nil {
		return err
	}
	resp, err := b.transport.RoundTrip(r)
	if err != nil {
		return nil //nolint:nilerr // the following checks report why the store is unreachable
	}
	defer resp.Body.Close() //nolint:errcheck // HEAD has no body
	date, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return nil //nolint:nilerr // a store without a Date header cannot be compared
	}
	if skew := b.now().Sub(date); skew.Abs() > maxSkew {
		return fmt.Errorf("the clock of this machine is %s away from the store's: set it", skew.Round(time.Second))
	}
	return nil
}

// checkMultipart begins a multipart upload with key, writes and lists a part, lists the upload, and
// aborts it in any case. Each failure names the missing permission.
func (b *Bucket) checkMultipart(ctx context.Context, key string) error {
	mpu, err := b.api.NewMultipartUpload(ctx, b.name, key, minio.PutObjectOptions{})
	if err != nil {
		return b.checkError("have multipart uploads begun (s3:PutObject)", err)
	}
	_, err = b.api.PutObjectPart(ctx, b.name, key, mpu, 1, bytes.NewReader([]byte("x")), 1, minio.PutObjectPartOptions{})
	if err != nil {
		err = b.checkError("have parts written (s3:PutObject)", err)
	} else if _, lerr := b.listParts(ctx, key, mpu); lerr != nil {
		err = b.checkError("have parts listed (s3:ListMultipartUploadParts)", lerr)
	} else if all, lerr := b.pendingOf(ctx, key); lerr != nil || len(all) == 0 {
		err = b.checkError("have multipart uploads listed (s3:ListBucketMultipartUploads)", errors.Join(lerr, checkListed(all)))
	}
	if aerr := b.abort(ctx, key, mpu); aerr != nil {
		err = errors.Join(err, b.checkError("have multipart uploads aborted (s3:AbortMultipartUpload)", aerr))
	}
	return err
}

// checkListed returns an Unavailable error if the listing is empty although an upload was begun.
func checkListed(all []pending) error {
	if len(all) == 0 {
		return drive.Wrap(errors.New("one that was begun is not in the list"), drive.Unavailable)
	}
	return nil
}
