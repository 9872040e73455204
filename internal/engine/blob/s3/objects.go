package s3

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Objects stores finished files under caller-chosen names for other readers of the bucket. They are
// not content: Store does not list them, and the auditor ignores them.
//
//	<prefix>/exports/<name>    the name may have slashes
//
// An object is written as a multipart upload. Writers must produce the same bytes for the same name
// each time. Any process can then resume the parts of another, and several may complete the object.
type Objects struct{ b *Bucket }

// Objects returns the Objects of the bucket.
func (b *Bucket) Objects() *Objects { return &Objects{b} }

// objectsDir is the key prefix of objects, below the bucket prefix.
const objectsDir = "exports/"

// key returns the full key of the object called name.
func (o *Objects) key(name string) string { return o.b.key(objectsDir + name) }

// Find returns the size of a complete object. A missing object is NotFound.
func (o *Objects) Find(ctx context.Context, name string) (drive.ByteSize, error) {
	info, err := o.b.stat(ctx, o.key(name))
	if err != nil {
		return 0, fmt.Errorf("look for an object: %w", err)
	}
	return drive.ByteSize(info.Size), nil
}

// Begin returns the multipart upload of an object and the sizes of its stored parts, by number from
// 0. It resumes the upload that holds the most bytes, or begins one if there is none. media is the
// Content-Type.
func (o *Objects) Begin(ctx context.Context, name, media string) (upload string, parts map[int]drive.ByteSize, err error) {
	key := o.key(name)
	all, err := o.b.pendingOf(ctx, key)
	if err != nil {
		return "", nil, fmt.Errorf("look for the upload of an object: %w", err)
	}
	most := drive.ByteSize(-1)
	for _, p := range all {
		sizes, sum, err := o.sizes(ctx, key, p.mpu)
		if drive.IsKind(err, drive.NotFound) { // it has just ended
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if sum > most || sum == most && p.mpu < upload {
			upload, parts, most = p.mpu, sizes, sum
		}
	}
	if upload != "" {
		return upload, parts, nil
	}
	upload, err = o.b.api.NewMultipartUpload(ctx, o.b.name, key, minio.PutObjectOptions{ContentType: media, ContentDisposition: disposition(name)})
	if err != nil {
		return "", nil, fmt.Errorf("begin an object: %w", classify(err))
	}
	return upload, map[int]drive.ByteSize{}, nil
}

// disposition returns a Content-Disposition with the last segment of name (RFC 8187).
func disposition(name string) string {
	return "attachment; filename*=UTF-8''" + url.PathEscape(name[strings.LastIndexByte(name, '/')+1:])
}

// sizes returns the sizes of the stored parts of an unfinished upload, by number from 0, and their
// sum. It fails with NotFound if the upload does not exist.
func (o *Objects) sizes(ctx context.Context, key, upload string) (sizes map[int]drive.ByteSize, sum drive.ByteSize, err error) {
	stored, err := o.b.listParts(ctx, key, upload)
	if err != nil {
		return nil, 0, fmt.Errorf("list the parts of an object: %w", err)
	}
	sizes = make(map[int]drive.ByteSize, len(stored))
	for n, p := range stored {
		sizes[n] = drive.ByteSize(p.size)
		sum += sizes[n]
	}
	return sizes, sum, nil
}

// Put stores part n of an upload; the part may be replaced by a later Put. If the body fails or has
// another size than size, the store keeps nothing of it.
func (o *Objects) Put(ctx context.Context, name, upload string, n int, size drive.ByteSize, body io.Reader) error {
	_, _, err := o.b.send(ctx, outgoing{
		body: blob.NewBody(body, blob.BodyOptions{Size: size, Limit: size}), size: size, last: func(blob.Part) error { return ctx.Err() },
		put: func(ctx context.Context, r io.Reader, size int64) error {
			_, err := o.b.sendPart(ctx, o.key(name), upload, n, r, size)
			return err
		},
	})
	if err != nil {
		return fmt.Errorf("put part %d of an object: %w", n, err)
	}
	return nil
}

// Publish atomically makes the object from the first count parts. An existing object stays
// unchanged and is not an error. It returns NotFound if the upload is gone or lacks a part.
func (o *Objects) Publish(ctx context.Context, name, upload string, count int) error {
	key := o.key(name)
	stored, err := o.b.listParts(ctx, key, upload)
	if err == nil {
		err = o.publish(ctx, key, upload, count, stored)
	}
	if err != nil && (drive.IsKind(err, drive.NotFound) || hasCode(err, minio.PreconditionFailed, "ConditionalRequestConflict")) {
		if _, serr := o.b.stat(ctx, key); serr == nil {
			err = o.abortAll(ctx, key) // another process has published it; abort the leftovers
		}
	}
	if err != nil {
		return fmt.Errorf("publish an object: %w", err)
	}
	return nil
}

// publish completes the upload with the parts 0 to count-1, after which the object is visible. It
// fails with NotFound if one is not in stored, and, if the store supports If-None-Match, if the
// object exists.
func (o *Objects) publish(ctx context.Context, key, upload string, count int, stored map[int]storedPart) error {
	all := make([]minio.CompletePart, count)
	for n := range all {
		p, ok := stored[n]
		if !ok {
			return drive.Wrap(fmt.Errorf("part %d of %d is not there", n, count), drive.NotFound)
		}
		all[n] = minio.CompletePart{PartNumber: n + 1, ETag: p.etag}
	}
	opts := minio.PutObjectOptions{}
	if !o.b.noIfNoneMatch.Load() {
		opts.SetMatchETagExcept("*")
	}
	_, err := o.b.api.CompleteMultipartUpload(ctx, o.b.name, key, upload, all, opts)
	return classify(err)
}

// Remove removes an object and its unfinished uploads. A missing object is not an error.
func (o *Objects) Remove(ctx context.Context, name string) error {
	key := o.key(name)
	err := o.abortAll(ctx, key)
	if err == nil { // after the uploads, because one of them may just have been completed
		err = o.b.remove(ctx, key)
	}
	if err != nil {
		return fmt.Errorf("remove an object: %w", err)
	}
	return nil
}

// abortAll aborts all multipart uploads with that key. It stops at the first error.
func (o *Objects) abortAll(ctx context.Context, key string) error {
	all, err := o.b.pendingOf(ctx, key)
	for _, p := range all {
		if err == nil {
			err = o.b.abort(ctx, p.key, p.mpu)
		}
	}
	return err
}

// List calls fn with the names of all objects, unfinished ones included. A name may be reported
// twice. It stops at the first error of fn.
func (o *Objects) List(ctx context.Context, fn func(name string) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dir := o.b.key(objectsDir)
	for obj := range o.b.api.ListObjectsIter(ctx, o.b.name, minio.ListObjectsOptions{Prefix: dir, Recursive: true, MaxKeys: pageSize}) {
		if obj.Err != nil {
			return fmt.Errorf("list objects: %w", classify(obj.Err))
		}
		if err := fn(strings.TrimPrefix(obj.Key, dir)); err != nil {
			return err
		}
	}
	return o.b.eachPending(ctx, dir, func(p pending) error { return fn(strings.TrimPrefix(p.key, dir)) })
}
