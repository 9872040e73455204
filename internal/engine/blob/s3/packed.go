package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3/pack"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// packObjects lets package pack use the objects of the bucket below packs (pack.Objects).
type packObjects struct{ b *Bucket }

var _ pack.Objects = packObjects{}

// key returns the full key of an object of a pack.
func (p packObjects) key(object string) string {
	name, _, _ := strings.Cut(object, ".")
	shard, _ := blob.ShardOf(name)
	return p.b.key(blob.ShardPath(shard, object))
}

// Create stores a new object; it fails if the object exists (pack.Objects).
func (p packObjects) Create(ctx context.Context, object string, b []byte) error {
	return wrapError("put a pack", p.b.create(ctx, p.key(object), b))
}

// Read returns up to n bytes of an object from off on; a missing object is NotFound. It retries
// transient errors.
func (p packObjects) Read(ctx context.Context, object string, off, n int64) (b []byte, err error) {
	pause := readRetryPause
	for fruitless := 0; ; fruitless++ {
		b, err = p.readOnce(ctx, object, off, n)
		if err == nil || fruitless == maxFruitlessReads || !drive.IsKind(err, drive.Unavailable) {
			return b, wrapError("read a pack", err)
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return nil, drive.Wrap(ctx.Err(), drive.Unavailable)
		}
	}
}

// readOnce makes one attempt to read up to n bytes from off. A range beyond the end of the object
// yields no bytes and no error. It fails with NotFound for a missing object and gives up after
// readStall.
func (p packObjects) readOnce(ctx context.Context, object string, off, n int64) (b []byte, err error) {
	opts := minio.GetObjectOptions{}
	if err := opts.SetRange(off, off+n-1); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := time.AfterFunc(readStall, cancel)
	defer stall.Stop()
	body, _, _, err := p.b.api.GetObject(ctx, p.b.name, p.key(object), opts)
	if e, ok := errors.AsType[minio.ErrorResponse](err); ok && e.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return nil, nil
	}
	if err != nil {
		return nil, classify(err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	b, err = io.ReadAll(io.LimitReader(body, n+1))
	if err == nil && int64(len(b)) > n {
		err = errors.New("the store sends more than it was asked for")
	}
	return b, classify(err)
}

// Find returns the names, without their directory, of the objects that begin with prefix; none is
// no error (pack.Objects). It returns an error instead of an incomplete list.
func (p packObjects) Find(ctx context.Context, prefix string) (objects []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range p.b.api.ListObjectsIter(ctx, p.b.name, minio.ListObjectsOptions{Prefix: p.key(prefix), Recursive: true, MaxKeys: pageSize}) {
		if o.Err != nil {
			return nil, wrapError("find the objects of a pack", classify(o.Err))
		}
		objects = append(objects, path.Base(o.Key))
	}
	return objects, ctx.Err()
}

// Delete deletes an object; a missing one is not an error (pack.Objects).
func (p packObjects) Delete(ctx context.Context, object string) error {
	return wrapError("delete a pack", p.b.remove(ctx, p.key(object)))
}

// ReserveName returns the name for new content of that size: a slot in a pack, which it reserves,
// or own if the content is too large for a slot or the memory for packs is used up. If the result
// is not own, the caller must call PutUnsynced once with it, and not Put (blob.Store).
func (s *Store) ReserveName(own string, size drive.ByteSize) string {
	return s.packs.ReserveName(own, int64(size))
}

// PutUnsynced stores new content that may be lost until a Sync. Content with a slot in a pack of
// this process stays in memory. If the pack has been sent already, or name is not a slot, the
// content becomes an object of its own.
func (s *Store) PutUnsynced(ctx context.Context, name string, body blob.Body, _ bool) (blob.Part, error) {
	at, ok := blob.SlotOf(name)
	if !ok || !s.packs.IsReserved(at) {
		return s.put(ctx, name, body)
	}
	b := make([]byte, at.Blocks*pack.Unit+1)
	n, part, err := blob.ReadSmall(ctx, body, b[slothead.HeaderSize:])
	b = b[:slothead.HeaderSize+n]
	if err == nil {
		ok, err = s.packs.Add(at, b)
	}
	switch {
	case err != nil:
		_, dropErr := s.packs.Remove(ctx, []blob.Slot{at}, false)
		return blob.Part{}, fmt.Errorf("lay: %w", errors.Join(err, dropErr))
	case ok:
		return part, nil
	}
	key, err := s.b.blobKey(name)
	if err == nil {
		err = s.b.create(context.WithoutCancel(ctx), key, b[slothead.HeaderSize:])
	}
	return part, wrapError("lay", err)
}

// Sync makes contents durable that PutUnsynced keeps in memory, by putting their packs
// (blob.Store). Contents that are durable already cost nothing.
func (s *Store) Sync(ctx context.Context, names []string) error {
	return wrapError("settle", s.packs.Sync(ctx, names))
}

// checkNotPacked returns an error if a pack contains content called name, or if that cannot be
// found out. A name that is not that of a slot passes without a request.
func (s *Store) checkNotPacked(ctx context.Context, name string) error {
	at, ok := blob.SlotOf(name)
	if !ok {
		return nil
	}
	_, err := s.packs.Size(ctx, at) // a rewritten pack is not checked; content stored twice does no harm
	switch {
	case err == nil:
		return errors.New("content of this name is there already")
	case drive.IsKind(err, drive.NotFound):
		return nil
	}
	return err
}

// sizeInPack returns the size of content in a pack. If the content is not in the pack's first
// object, sizeInPack calls alone, which looks for an object of its own, before it looks for a
// rewritten pack. If alone finds the object, the size is 0.
func (s *Store) sizeInPack(ctx context.Context, at blob.Slot, alone func() error) (drive.ByteSize, error) {
	size, err := s.packs.Size(ctx, at)
	if !drive.IsKind(err, drive.NotFound) {
		return drive.ByteSize(size), err
	}
	if err := alone(); !drive.IsKind(err, drive.NotFound) {
		return 0, err
	}
	if moved, err := s.packs.Locate(ctx, at.Pack); !moved || err != nil {
		return 0, errors.Join(err, drive.Wrap(err, drive.NotFound))
	}
	size, err = s.packs.Size(ctx, at)
	return drive.ByteSize(size), err
}

// openSlot opens the content of a slot, from its pack or from an object called like the slot. Such
// an object exists if the content was laid too late, came from another store, or replaces a damaged
// slot. It is tried before the pack is looked up as rewritten.
func (s *Store) openSlot(ctx context.Context, at blob.Slot, key string) (blob.Object, error) {
	o, found, err := s.openPacked(ctx, at, key)
	if found || err != nil {
		return o, err
	}
	o, objectErr := s.b.open(ctx, key)
	if !drive.IsKind(objectErr, drive.NotFound) {
		return o, objectErr
	}
	moved, err := s.packs.Locate(ctx, at.Pack)
	if err != nil {
		return nil, fmt.Errorf("open content: %w", err)
	}
	if moved {
		if o, found, err := s.openPacked(ctx, at, key); found || err != nil {
			return o, err
		}
	}
	return nil, objectErr
}

// openPacked opens the content of a slot at the known location of its pack. If the slot is damaged,
// it opens the object called like the slot, or returns the damaged bytes if there is none. found is
// false if neither exists.
func (s *Store) openPacked(ctx context.Context, at blob.Slot, key string) (o blob.Object, found bool, err error) {
	b, whole, err := s.packs.Read(ctx, at)
	switch {
	case drive.IsKind(err, drive.NotFound):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("open content: %w", err)
	case whole:
		return blob.MemoryObject(b), true, nil
	}
	if o, err = s.b.open(ctx, key); drive.IsKind(err, drive.NotFound) {
		return blob.MemoryObject(b), true, nil // the reader's digest check detects the damage
	}
	return o, err == nil, err
}

// readPacked returns the content of a slot wherever its pack is. It returns NotFound if no pack
// contains it.
func (s *Store) readPacked(ctx context.Context, at blob.Slot) ([]byte, error) {
	b, _, err := s.packs.Read(ctx, at)
	if !drive.IsKind(err, drive.NotFound) {
		return b, err
	}
	if moved, locateErr := s.packs.Locate(ctx, at.Pack); !moved || locateErr != nil {
		return nil, cmp.Or(locateErr, err)
	}
	b, _, err = s.packs.Read(ctx, at)
	return b, err
}

// quarantineSlot copies the content of a slot to the quarantine and removes it from its pack.
// Missing content is not an error.
func (s *Store) quarantineSlot(ctx context.Context, at blob.Slot, place string) error {
	b, err := s.readPacked(ctx, at)
	if drive.IsKind(err, drive.NotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	to, err := s.b.freeKey(ctx, s.b.key(s.b.quarantinePlace(place)))
	if err == nil {
		err = s.b.create(ctx, to, b)
	}
	if err == nil {
		_, err = s.packs.Remove(ctx, []blob.Slot{at}, false)
	}
	return err
}

// maxConcurrentPacks is the number of packs changed or listed concurrently.
const maxConcurrentPacks = 16

// removeFromPacks removes contents from packs. gone were only in the memory of this process. rest
// may also exist as objects of their own, which the caller must remove. Contents kept because
// frugal is set are in neither.
func (s *Store) removeFromPacks(ctx context.Context, names []string, frugal bool) (gone, rest []string, err error) {
	packs := map[string][]blob.Slot{}
	for _, name := range names {
		if at, ok := blob.SlotOf(name); ok {
			packs[at.Pack] = append(packs[at.Pack], at)
		} else {
			rest = append(rest, name)
		}
	}
	var (
		mu   sync.Mutex // guards gone, rest and errs
		errs []error
		all  errgroup.Group
	)
	all.SetLimit(maxConcurrentPacks)
	for _, slots := range packs {
		all.Go(func() error {
			outcome, err := s.packs.Remove(ctx, slots, frugal)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case outcome == pack.Kept:
			case outcome == pack.Unsent:
				gone = append(gone, namesOf(slots)...)
			default:
				rest = append(rest, namesOf(slots)...)
			}
			return nil
		})
	}
	_ = all.Wait() // the errors are in errs
	return gone, rest, wrapError("remove contents", blob.JoinFirst(errs))
}

// namesOf returns the names of slots.
func namesOf(slots []blob.Slot) []string {
	names := make([]string, len(slots))
	for i, at := range slots {
		names[i] = at.Name()
	}
	return names
}
