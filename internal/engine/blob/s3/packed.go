package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
	"smartdrive/internal/engine/blob/s3/pack"
	"smartdrive/internal/engine/blob/slothead"
)

// packed is how packs see the bucket.
type packed struct{ b *Bucket }

var _ pack.Objects = packed{}

func (p packed) key(name string) string {
	shard, _ := blob.ShardOf(name)
	return p.b.key(blob.PlaceIn(shard, name+pack.Suffix))
}

// Create implements pack.Objects.
func (p packed) Create(ctx context.Context, name string, b []byte) error {
	return wrapped("put a pack", p.b.create(ctx, p.key(name), b))
}

// Replace implements pack.Objects.
func (p packed) Replace(ctx context.Context, name string, b []byte, tag string) error {
	var opts minio.PutObjectOptions
	if !p.b.uncompared.Load() {
		opts.SetMatchETag(tag)
	}
	err := p.b.putObject(ctx, p.key(name), wholeOf(b), int64(len(b)), opts)
	return wrapped("replace a pack", ofCondition(err))
}

// Read implements pack.Objects.
func (p packed) Read(ctx context.Context, name string, off, n int64, tag string) (b []byte, now string, err error) {
	pause := rereadPause
	for fruitless := 0; ; fruitless++ {
		b, now, err = p.readOnce(ctx, name, off, n, tag)
		if err == nil || fruitless == rereads || !drive.IsKind(err, drive.Unavailable) {
			return b, now, wrapped("read a pack", err)
		}
		select {
		case <-time.After(pause):
			pause *= 2
		case <-ctx.Done():
			return nil, "", drive.Wrap(ctx.Err(), drive.Unavailable)
		}
	}
}

func (p packed) readOnce(ctx context.Context, name string, off, n int64, tag string) (b []byte, now string, err error) {
	opts := minio.GetObjectOptions{}
	if err := opts.SetRange(off, off+n-1); err != nil {
		return nil, "", err
	}
	if tag != "" {
		if err := opts.SetMatchETag(tag); err != nil {
			return nil, "", err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stall := time.AfterFunc(readStall, cancel)
	defer stall.Stop()
	body, info, _, err := p.b.api.GetObject(ctx, p.b.name, p.key(name), opts)
	if e, ok := errors.AsType[minio.ErrorResponse](err); ok && e.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", ofCondition(err)
	}
	defer body.Close() //nolint:errcheck // it was only read
	b, err = io.ReadAll(io.LimitReader(body, n+1))
	if err == nil && int64(len(b)) > n {
		err = errors.New("the store sends more than it was asked for")
	}
	return b, trim(info.ETag), classify(err)
}

// Delete implements pack.Objects.
func (p packed) Delete(ctx context.Context, name string) error {
	return wrapped("delete a pack", p.b.remove(ctx, p.key(name)))
}

// ofCondition tells an object that is another one by now.
func ofCondition(err error) error {
	if hasCode(err, minio.PreconditionFailed, "ConditionalRequestConflict") {
		return pack.ErrChanged
	}
	return classify(err)
}

// Name implements blob.Store.
func (s *Store) Name(own string, size drive.ByteSize) string { return s.packs.Name(own, int64(size)) }

// Lay implements blob.Store: what has a place in a pack of this process stays in memory. What comes
// when that pack has gone is an object of its own, as all else is.
func (s *Store) Lay(ctx context.Context, name string, body blob.Body, _ bool) (blob.Part, error) {
	at, ok := blob.SlotOf(name)
	if !ok || !s.packs.Awaits(at) {
		return s.put(ctx, name, body)
	}
	b := make([]byte, at.Blocks*pack.Unit+1)
	n, part, err := blob.ReadLittle(ctx, body, b[slothead.HeadSize:])
	b = b[:slothead.HeadSize+n]
	if err == nil {
		ok, err = s.packs.Lay(at, b)
	}
	switch {
	case err != nil:
		_, forgotten := s.packs.Remove(ctx, []blob.Slot{at})
		return blob.Part{}, fmt.Errorf("lay: %w", errors.Join(err, forgotten))
	case ok:
		return part, nil
	}
	key, err := s.b.blobKey(name)
	if err == nil {
		err = s.b.create(context.WithoutCancel(ctx), key, b[slothead.HeadSize:])
	}
	return part, wrapped("lay", err)
}

// Settle implements blob.Store.
func (s *Store) Settle(ctx context.Context, names []string) error {
	return wrapped("settle", s.packs.Settle(ctx, names))
}

// notInPack refuses a name that a pack has content of.
func (s *Store) notInPack(ctx context.Context, name string) error {
	at, ok := blob.SlotOf(name)
	if !ok {
		return nil
	}
	_, err := s.packs.Size(ctx, at)
	switch {
	case err == nil:
		return errors.New("content of this name is there already")
	case drive.IsKind(err, drive.NotFound):
		return nil
	}
	return err
}

// openSlot opens content that lies in a pack, or in an object of its whole name: it was laid too
// late, came from another store, or somebody has brought it back because it is damaged in the pack.
func (s *Store) openSlot(ctx context.Context, at blob.Slot, key string) (blob.Object, error) {
	b, whole, err := s.packs.Read(ctx, at)
	if err == nil && whole {
		return blob.InMemory(b), nil
	}
	if err != nil && !drive.IsKind(err, drive.NotFound) {
		return nil, fmt.Errorf("open content: %w", err)
	}
	o, objectErr := s.b.open(ctx, key)
	if err == nil && drive.IsKind(objectErr, drive.NotFound) {
		return blob.InMemory(b), nil // who knows its digest finds out
	}
	return o, objectErr
}

// setAside copies what lies in a slot to the quarantine, and removes it from its pack. That nothing
// lies there is no error.
func (s *Store) setAside(ctx context.Context, at blob.Slot, place string) error {
	b, _, err := s.packs.Read(ctx, at)
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
		_, err = s.packs.Remove(ctx, []blob.Slot{at})
	}
	return err
}

// packsAtOnce is how many packs are changed, or asked for what they have, at the same time.
const packsAtOnce = 16

// removeFromPacks takes contents out of packs. gone were in the memory of this process; rest are
// those of which there may be an object.
func (s *Store) removeFromPacks(ctx context.Context, names []string) (gone, rest []string, err error) {
	packs := map[string][]blob.Slot{}
	for _, name := range names {
		if at, ok := blob.SlotOf(name); ok {
			packs[at.Pack] = append(packs[at.Pack], at)
		} else {
			rest = append(rest, name)
		}
	}
	var (
		mu   sync.Mutex // guards what is returned
		errs []error
		all  errgroup.Group
	)
	all.SetLimit(packsAtOnce)
	for _, slots := range packs {
		all.Go(func() error {
			unsent, err := s.packs.Remove(ctx, slots)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				errs = append(errs, err)
			case unsent:
				gone = append(gone, namesOf(slots)...)
			default:
				rest = append(rest, namesOf(slots)...)
			}
			return nil
		})
	}
	_ = all.Wait() // each one's error is in errs
	return gone, rest, wrapped("remove contents", blob.First(errs))
}

func namesOf(slots []blob.Slot) []string {
	names := make([]string, len(slots))
	for i, at := range slots {
		names[i] = at.Name()
	}
	return names
}
