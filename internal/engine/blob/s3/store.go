package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Store implements blob.Store.
type Store struct{ b *Bucket }

var _ blob.Store = (*Store)(nil)

// Caps implements blob.Store. How much room there is nobody knows.
func (s *Store) Caps() blob.StoreCaps { return blob.StoreCaps{Links: true, Far: true} }

// Free implements blob.Store.
func (s *Store) Free(context.Context) (drive.ByteSize, error) {
	return 0, errors.New("a bucket does not tell how much room it has")
}

// Receive implements blob.Store: an object is seen when it is whole.
func (s *Store) Receive(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// attemptKey is metadata that tells what one Put has stored from what was there.
const attemptKey = "Smartdrive-Attempt"

// Put implements blob.Store. The store shows nothing before it has the last byte, which goes out
// only when all of it was checked. A crash before the reply leaves content that no row names; the
// auditor knows what to do with a put- object of an older generation.
func (s *Store) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put %q: no name for content", name)
	}
	attempt := randomID()
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{attemptKey: attempt}}
	if !s.b.unconditional.Load() {
		opts.SetMatchETagExcept("*")
	} else if err := s.b.absent(ctx, key); err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", err)
	}
	part, stored, err := s.b.send(ctx, outgoing{
		body: body, size: body.Size(), last: func(blob.Part) error { return nil },
		put: func(ctx context.Context, r io.Reader, size int64) error {
			return s.b.putObject(ctx, key, r, size, opts)
		},
	})
	taken := hasCode(err, minio.PreconditionFailed)
	if err == nil || taken && s.isOf(ctx, key, attempt) { // by the first of two requests, whose reply was lost
		return part, nil
	}
	if stored && !taken {
		s.undo(ctx, key, attempt)
	}
	return blob.Part{}, fmt.Errorf("put: %w", err)
}

// Name implements blob.Store: each content is an object.
func (s *Store) Name(own string, _ drive.ByteSize) string { return own }

// Lay implements blob.Store: a store has what it has acknowledged.
func (s *Store) Lay(ctx context.Context, name string, body blob.Body, _ bool) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// Settle implements blob.Store.
func (s *Store) Settle(context.Context, []string) error { return nil }

// isOf reports whether an object is what an attempt has stored.
func (s *Store) isOf(ctx context.Context, key, attempt string) bool {
	ctx, stop := detached(ctx)
	defer stop()
	info, err := s.b.stat(ctx, key)
	return err == nil && info.UserMetadata[attemptKey] == attempt
}

// undo removes what a Put may have stored whose reply was lost, and nothing else.
func (s *Store) undo(ctx context.Context, key, attempt string) {
	ctx, stop := detached(ctx)
	defer stop()
	info, err := s.b.stat(ctx, key)
	if err == nil && info.UserMetadata[attemptKey] == attempt {
		err = s.b.remove(ctx, key)
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		s.b.log.Warn("content of a failed put not removed", "key", key, "err", err)
	}
}

// putObject puts an object by one request.
func (b *Bucket) putObject(ctx context.Context, key string, r io.Reader, size int64, opts minio.PutObjectOptions) error {
	ctx, r, sum := unwrap(ctx, r)
	opts.DisableContentSha256 = sum != "" // that of chunks
	_, err := b.api.PutObject(ctx, b.name, key, r, size, "", sum, opts)
	return err
}

// absent is If-None-Match for stores that refuse it. It leaves a gap, which names that are given
// once close.
func (b *Bucket) absent(ctx context.Context, key string) error {
	_, err := b.stat(ctx, key)
	switch {
	case err == nil:
		return errors.New("content of this name is there already")
	case drive.IsKind(err, drive.NotFound):
		return nil
	default:
		return err
	}
}

// Open implements blob.Store.
func (s *Store) Open(ctx context.Context, name string) (blob.Object, error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return nil, err
	}
	return s.b.open(ctx, key)
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return 0, err
	}
	info, err := s.b.stat(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("stat content: %w", err)
	}
	return drive.ByteSize(info.Size), nil
}

// Remove implements blob.Store.
func (s *Store) Remove(ctx context.Context, name string) error {
	key, err := s.b.blobKey(name)
	if err != nil {
		return nil //nolint:nilerr // such a name was never given, so it is not there
	}
	if err := s.b.remove(ctx, key); err != nil {
		return fmt.Errorf("remove content: %w", err)
	}
	return nil
}

func (b *Bucket) remove(ctx context.Context, key string) error {
	err := classify(b.api.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// List implements blob.Store.
func (s *Store) List(ctx context.Context, fn func(blob.Stray) error) error {
	return s.list(ctx, minio.ListObjectsOptions{Prefix: s.b.key(blobsDir), Recursive: true, MaxKeys: pageSize}, fn)
}

func (s *Store) list(ctx context.Context, opts minio.ListObjectsOptions, fn func(blob.Stray) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.b.api.ListObjectsIter(ctx, s.b.name, opts) {
		if o.Err != nil {
			return fmt.Errorf("list contents: %w", classify(o.Err))
		}
		place := strings.TrimPrefix(o.Key, s.b.prefix)
		if err := fn(blob.Stray{Place: place, Name: nameOf(place), Size: drive.ByteSize(o.Size)}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// errFull ends a list.
var errFull = errors.New("the page is full")

// ListPage implements blob.Store with one request, if limit is at most what the store lists in one.
func (s *Store) ListPage(ctx context.Context, shard, after string, limit int) (page []blob.Stray, more bool, err error) {
	opts := minio.ListObjectsOptions{Prefix: s.b.key(blob.PlaceIn(shard, "")), Recursive: true, MaxKeys: limit}
	if after != "" {
		opts.StartAfter = s.b.key(after)
	}
	err = s.list(ctx, opts, func(stray blob.Stray) error {
		if page = append(page, stray); len(page) == limit {
			return errFull
		}
		return nil
	})
	if errors.Is(err, errFull) {
		return page, true, nil
	}
	return page, false, err
}

// ListOdd implements blob.Store. It lists the objects directly below blobs, and those below each
// prefix that is not a shard.
func (s *Store) ListOdd(ctx context.Context, fn func(blob.Stray) error) error {
	opts := minio.ListObjectsOptions{Prefix: s.b.key(blobsDir), MaxKeys: pageSize}
	return s.list(ctx, opts, func(stray blob.Stray) error {
		below, isPrefix := strings.CutSuffix(strings.TrimPrefix(stray.Place, blobsDir), "/")
		switch {
		case isPrefix && blob.IsShard(below):
			return nil
		case isPrefix:
			return s.list(ctx, minio.ListObjectsOptions{Prefix: s.b.key(stray.Place), Recursive: true, MaxKeys: pageSize}, fn)
		default:
			return fn(stray)
		}
	})
}

// Quarantine implements blob.Store: a copy at the store, then the original goes. A crash between
// the two leaves both, and the next one makes a second copy.
func (s *Store) Quarantine(ctx context.Context, stray blob.Stray) error {
	if !strings.HasPrefix(stray.Place, blobsDir) {
		return fmt.Errorf("quarantine %q: not below %s", stray.Place, blobsDir)
	}
	if err := s.b.quarantine(ctx, s.b.key(stray.Place), stray.Place); err != nil {
		return fmt.Errorf("quarantine %q: %w", stray.Place, err)
	}
	return nil
}

// quarantine moves the object of key to today's quarantine. What is gone already is not an error.
func (b *Bucket) quarantine(ctx context.Context, key, place string) error {
	info, err := b.stat(ctx, key)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to, err := b.freeKey(ctx, b.key(b.quarantinePlace(place)))
	if err != nil {
		return err
	}
	if err := b.copy(ctx, key, to, info); err != nil {
		return err
	}
	return b.remove(ctx, key)
}

// largestCopy is the most that S3 copies in one request, in bytes.
const largestCopy = 5 << 30

func (b *Bucket) copy(ctx context.Context, key, to string, info minio.ObjectInfo) error {
	src := minio.CopySrcOptions{Bucket: b.name, Object: key, MatchETag: info.ETag}
	dst := minio.CopyDestOptions{Bucket: b.name, Object: to}
	if info.Size <= largestCopy {
		_, err := b.api.Client.CopyObject(ctx, dst, src)
		return classify(err)
	}
	_, err := b.api.ComposeObject(ctx, dst, src)
	return classify(err)
}

// maxNamesakes bounds how many things of one name a day's quarantine takes.
const maxNamesakes = 1000

// freeKey returns key, or key with a number where that is taken: nothing in quarantine is ever
// overwritten.
func (b *Bucket) freeKey(ctx context.Context, key string) (string, error) {
	for i := range maxNamesakes {
		try := key
		if i > 0 {
			try = fmt.Sprintf("%s.%d", key, i)
		}
		_, err := b.stat(ctx, try)
		if drive.IsKind(err, drive.NotFound) {
			return try, nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%d things of one name in one day", maxNamesakes)
}

// Presign implements blob.Store.
func (s *Store) Presign(ctx context.Context, name string, l blob.Link) (string, error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return "", err
	}
	u, err := s.b.api.PresignedGetObject(ctx, s.b.name, key, l.Valid, responseHeaders(l))
	if err != nil {
		return "", fmt.Errorf("presign: %w", classify(err))
	}
	return u.String(), nil
}
