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
	"smartdrive/internal/engine/blob/s3/pack"
)

// Store implements blob.Store.
type Store struct {
	b     *Bucket
	packs *pack.Packs
}

var _ blob.Store = (*Store)(nil)

// Caps implements blob.Store. How much room there is nobody knows.
func (s *Store) Caps() blob.StoreCaps { return blob.StoreCaps{Links: true, Frugal: true, Far: true} }

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
	if err := s.notInPack(ctx, name); err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", err)
	}
	return s.put(ctx, name, body)
}

// put is Put of a name that no pack has.
func (s *Store) put(ctx context.Context, name string, body blob.Body) (part blob.Part, err error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put %q: no name for content", name)
	}
	err = s.b.once(ctx, key, func(opts minio.PutObjectOptions) (stored bool, err error) {
		part, stored, err = s.b.send(ctx, outgoing{
			body: body, size: body.Size(), last: func(blob.Part) error { return nil },
			put: func(ctx context.Context, r io.Reader, size int64) error {
				return s.b.putObject(ctx, key, r, size, opts)
			},
		})
		return stored, err
	})
	if err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", err)
	}
	return part, nil
}

// create stores bytes as a new object.
func (b *Bucket) create(ctx context.Context, key string, content []byte) error {
	return b.once(ctx, key, func(opts minio.PutObjectOptions) (stored bool, err error) {
		return true, classify(b.putObject(ctx, key, wholeOf(content), int64(len(content)), opts))
	})
}

// once stores an object where there is none: put does it, and reports whether the store may have it
// although its err is not nil. Then it is taken away again, unless it turns out that it is there
// and only the reply was lost.
func (b *Bucket) once(ctx context.Context, key string, put func(minio.PutObjectOptions) (stored bool, err error)) error {
	attempt := randomID()
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{attemptKey: attempt}}
	if !b.unconditional.Load() {
		opts.SetMatchETagExcept("*")
	} else if err := b.absent(ctx, key); err != nil {
		return err
	}
	stored, err := put(opts)
	taken := hasCode(err, minio.PreconditionFailed)
	if err == nil || taken && b.isOf(ctx, key, attempt) { // by the first of two requests, whose reply was lost
		return nil
	}
	if stored && !taken {
		b.undo(ctx, key, attempt)
	}
	return err
}

// isOf reports whether an object is what an attempt has stored.
func (b *Bucket) isOf(ctx context.Context, key, attempt string) bool {
	ctx, stop := detached(ctx)
	defer stop()
	info, err := b.stat(ctx, key)
	return err == nil && info.UserMetadata[attemptKey] == attempt
}

// undo removes what a Put may have stored whose reply was lost, and nothing else.
func (b *Bucket) undo(ctx context.Context, key, attempt string) {
	ctx, stop := detached(ctx)
	defer stop()
	info, err := b.stat(ctx, key)
	if err == nil && info.UserMetadata[attemptKey] == attempt {
		err = b.remove(ctx, key)
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		b.log.Warn("content of a failed put not removed", "key", key, "error", err)
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
	if at, ok := blob.SlotOf(name); ok {
		return s.openSlot(ctx, at, key)
	}
	return s.b.open(ctx, key)
}

// Stat implements blob.Store.
func (s *Store) Stat(ctx context.Context, name string) (drive.ByteSize, error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return 0, err
	}
	if at, ok := blob.SlotOf(name); ok {
		var info minio.ObjectInfo
		size, err := s.sizeInPack(ctx, at, func() (err error) {
			info, err = s.b.stat(ctx, key)
			return err
		})
		return max(size, drive.ByteSize(info.Size)), wrapped("stat content", err)
	}
	info, err := s.b.stat(ctx, key)
	return drive.ByteSize(info.Size), wrapped("stat content", err)
}

func wrapped(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Remove implements blob.Store.
func (s *Store) Remove(ctx context.Context, name string) error {
	key, err := s.b.blobKey(name)
	if err != nil {
		return nil //nolint:nilerr // such a name was never given, so it is not there
	}
	if at, ok := blob.SlotOf(name); ok {
		if outcome, err := s.packs.Remove(ctx, []blob.Slot{at}, false); outcome == pack.Unsent || err != nil {
			return wrapped("remove content", err)
		}
	}
	return wrapped("remove content", s.b.remove(ctx, key))
}

func (b *Bucket) remove(ctx context.Context, key string) error {
	err := classify(b.api.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// Quarantine implements blob.Store: a copy at the store, then the original goes. A crash between
// the two leaves both, and the next one makes a second copy.
func (s *Store) Quarantine(ctx context.Context, stray blob.Stray) error {
	if !strings.HasPrefix(stray.Place, blobsDir) {
		return fmt.Errorf("quarantine %q: not below %s", stray.Place, blobsDir)
	}
	if at, ok := blob.SlotOf(stray.Name); ok {
		if err := s.setAside(ctx, at, stray.Place); err != nil {
			return fmt.Errorf("quarantine %q: %w", stray.Place, err)
		}
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
	if _, ok := blob.SlotOf(name); ok {
		return "", nil
	}
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
