package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3/pack"
)

// Store is a blob.Store of the objects below blobs/ in a Bucket; small contents share objects
// (packs).
type Store struct {
	b     *Bucket
	packs *pack.Packs
}

var _ blob.Store = (*Store)(nil)

// Caps reports presigned URLs, incomplete Reclaims and high latency, but not the free space.
func (s *Store) Caps() blob.StoreCaps {
	return blob.StoreCaps{Presigns: true, DefersReclaim: true, HighLatency: true}
}

// Free always fails: a bucket does not report free space.
func (s *Store) Free(context.Context) (drive.ByteSize, error) {
	return 0, errors.New("a bucket does not tell how much room it has")
}

// PutAtomic stores content that rows already refer to. It is Put, because an object is only visible
// when it is complete.
func (s *Store) PutAtomic(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	return s.Put(ctx, name, body)
}

// attemptKey is the metadata key that identifies the Put that stored an object.
const attemptKey = "Smartdrive-Attempt"

// Put stores new content durably. The object appears when the store has its last byte, which is
// sent only after all checks. A crash before the reply leaves content without a row; the auditor
// handles put- objects of an older generation.
func (s *Store) Put(ctx context.Context, name string, body blob.Body) (blob.Part, error) {
	if err := s.checkNotPacked(ctx, name); err != nil {
		return blob.Part{}, fmt.Errorf("put: %w", err)
	}
	return s.put(ctx, name, body)
}

// put stores body as an object of its own. The caller has checked that no pack contains the name.
// It fails if an object has the name or the body fails, and then deletes what it has stored.
func (s *Store) put(ctx context.Context, name string, body blob.Body) (part blob.Part, err error) {
	key, err := s.b.blobKey(name)
	if err != nil {
		return blob.Part{}, fmt.Errorf("put %q: no name for content", name)
	}
	err = s.b.putIfAbsent(ctx, key, func(opts minio.PutObjectOptions) (stored bool, err error) {
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

// create stores content as a new object. It fails if the key exists, even if both are created
// concurrently and the store supports If-None-Match.
func (b *Bucket) create(ctx context.Context, key string, content []byte) error {
	return b.putIfAbsent(ctx, key, func(opts minio.PutObjectOptions) (stored bool, err error) {
		return true, classify(b.putObject(ctx, key, newBufferedBody(content), int64(len(content)), opts))
	})
}

// putIfAbsent stores an object at a key that must be free. put does the request and reports whether
// the store may have the object despite an error. In that case putIfAbsent deletes the object
// again, unless only the reply was lost.
func (b *Bucket) putIfAbsent(ctx context.Context, key string, put func(minio.PutObjectOptions) (stored bool, err error)) error {
	attempt := randomID()
	opts := minio.PutObjectOptions{UserMetadata: map[string]string{attemptKey: attempt}}
	if !b.noIfNoneMatch.Load() {
		opts.SetMatchETagExcept("*")
	} else if err := b.checkAbsent(ctx, key); err != nil {
		return err
	}
	stored, err := put(opts)
	taken := hasCode(err, minio.PreconditionFailed)
	if err == nil || taken && b.isStoredBy(ctx, key, attempt) { // a retried request conflicts with its own first attempt
		return nil
	}
	if stored && !taken {
		b.undoPut(ctx, key, attempt)
	}
	return err
}

// isStoredBy reports whether the object at key has the mark of attempt in its metadata, which means
// that the attempt succeeded although its reply was lost. It returns false if the store cannot be
// asked. It also works if ctx has ended.
func (b *Bucket) isStoredBy(ctx context.Context, key, attempt string) bool {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	info, err := b.stat(ctx, key)
	return err == nil && info.UserMetadata[attemptKey] == attempt
}

// undoPut deletes the object at key if attempt stored it, even if ctx has ended. A failure is
// logged; the auditor then finds the object.
func (b *Bucket) undoPut(ctx context.Context, key, attempt string) {
	ctx, stop := cleanupContext(ctx)
	defer stop()
	info, err := b.stat(ctx, key)
	if err == nil && info.UserMetadata[attemptKey] == attempt {
		err = b.remove(ctx, key)
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		b.log.Warn("object of a failed put not removed; the auditor finds it", "key", key, "error", err)
	}
}

// putObject stores an object with one request and returns the unclassified error of the client
// library.
func (b *Bucket) putObject(ctx context.Context, key string, r io.Reader, size int64, opts minio.PutObjectOptions) error {
	ctx, r, sum := unwrapBuffered(ctx, r)
	opts.DisableContentSha256 = sum != "" // the checksum of chunks
	_, err := b.api.PutObject(ctx, b.name, key, r, size, "", sum, opts)
	return err
}

// checkAbsent fails if the object exists. It replaces If-None-Match for stores without it. The race
// between check and write is harmless, because names are used once.
func (b *Bucket) checkAbsent(ctx context.Context, key string) error {
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

// Open opens the content called name, in an object of its own or in a pack, and the caller must
// close it (blob.Store). It fails with NotFound if there is none.
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

// Stat returns the size of content without reading it (blob.Store). It fails with NotFound if
// neither a pack nor an object contains the name.
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
		return max(size, drive.ByteSize(info.Size)), wrapError("stat content", err)
	}
	info, err := s.b.stat(ctx, key)
	return drive.ByteSize(info.Size), wrapError("stat content", err)
}

// wrapError prefixes err with what was attempted; nil stays nil.
func wrapError(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// Remove deletes content durably, its slot in a pack and an object of that name (blob.Store).
// Missing content is not an error.
func (s *Store) Remove(ctx context.Context, name string) error {
	key, err := s.b.blobKey(name)
	if err != nil {
		return nil //nolint:nilerr // such a name is never given, so it cannot exist
	}
	if at, ok := blob.SlotOf(name); ok {
		if outcome, err := s.packs.Remove(ctx, []blob.Slot{at}, false); outcome == pack.Unsent || err != nil {
			return wrapError("remove content", err)
		}
	}
	return wrapError("remove content", s.b.remove(ctx, key))
}

// remove deletes an object and returns the classified error of the store. A missing object is not
// an error.
func (b *Bucket) remove(ctx context.Context, key string) error {
	err := classify(b.api.RemoveObject(ctx, b.name, key, minio.RemoveObjectOptions{}))
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	return err
}

// Quarantine moves a listed entry to the quarantine: it copies the object within the store and
// deletes the original. A crash in between leaves both, and the next call makes a second copy.
func (s *Store) Quarantine(ctx context.Context, stray blob.Entry) error {
	if !strings.HasPrefix(stray.Path, blobsDir) {
		return fmt.Errorf("quarantine %q: not below %s", stray.Path, blobsDir)
	}
	if at, ok := blob.SlotOf(stray.Name); ok {
		if err := s.quarantineSlot(ctx, at, stray.Path); err != nil {
			return fmt.Errorf("quarantine %q: %w", stray.Path, err)
		}
	}
	if err := s.b.quarantine(ctx, s.b.key(stray.Path), stray.Path); err != nil {
		return fmt.Errorf("quarantine %q: %w", stray.Path, err)
	}
	return nil
}

// quarantine moves the object at key to today's quarantine, named after place. A missing object is
// not an error.
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

// largestCopy is the largest object that S3 copies in one request, in bytes.
const largestCopy = 5 << 30

// copy copies the object at key to another key inside the store, overwriting it. It fails if the
// object is no longer the version of info, by its ETag. Objects above largestCopy are copied in
// parts.
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

// maxSameName bounds the entries of one name in a day's quarantine.
const maxSameName = 1000

// freeKey returns key, or key with a numeric suffix if it exists. Nothing in the quarantine is
// overwritten.
func (b *Bucket) freeKey(ctx context.Context, key string) (string, error) {
	for i := range maxSameName {
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
	return "", fmt.Errorf("%d things of one name in one day", maxSameName)
}

// Presign returns a URL with which a client can read the content until it expires (blob.Store). For
// content in a pack it returns "" and no error; the caller must then send the bytes itself. It does
// not check that the content exists.
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
