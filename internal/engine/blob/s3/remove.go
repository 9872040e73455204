package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"smartdrive/internal/engine/blob"
)

// RemoveAll implements blob.Store. Contents that lie in one pack leave it together. All names may
// be those of objects, and go with DeleteObjects, which takes 1,000 keys a request. A store that
// does not know the request is not asked a second time: there each content is deleted by itself,
// many at once.
func (s *Store) RemoveAll(ctx context.Context, names []string) (gone []string, err error) {
	return s.removeAll(ctx, names, false)
}

// Reclaim implements blob.Store. It rewrites a pack only if that writes at most pack.MaxRewritten
// times what it frees.
func (s *Store) Reclaim(ctx context.Context, names []string) (gone []string, err error) {
	return s.removeAll(ctx, names, true)
}

func (s *Store) removeAll(ctx context.Context, names []string, frugal bool) (gone []string, err error) {
	gone, rest, err := s.removeFromPacks(ctx, names, frugal)
	some, restErr := s.removeObjects(ctx, rest)
	return append(gone, some...), errors.Join(err, restErr)
}

// removeObjects removes contents that lie in objects of their own, or nowhere.
func (s *Store) removeObjects(ctx context.Context, names []string) (gone []string, err error) {
	keys := make(map[string]string, len(names)) // names by key
	for _, name := range names {
		key, err := s.b.blobKey(name)
		if err != nil {
			gone = append(gone, name) // such a name was never given, so it is not there
			continue
		}
		keys[key] = name
	}
	if len(keys) == 0 {
		return gone, nil
	}
	removed, err := s.b.removeKeys(ctx, keys)
	for _, key := range removed {
		gone = append(gone, keys[key])
	}
	return gone, wrapped("remove contents", err)
}

// removeKeys is removeAll, where the store knows it.
func (b *Bucket) removeKeys(ctx context.Context, keys map[string]string) (gone []string, err error) {
	if !b.singly.Load() {
		gone, err = b.removeAll(ctx, keys)
		if !unknownRequest(err) {
			return gone, err
		}
		b.singly.Store(true)
	}
	return blob.RemoveEach(ctx, slices.Collect(maps.Keys(keys)), b.remove)
}

// removeAll deletes objects and returns the keys that the store says are gone; a missing one is.
// What it says nothing about is not gone.
func (b *Bucket) removeAll(ctx context.Context, keys map[string]string) (gone []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ask := func(yield func(minio.ObjectInfo) bool) {
		for key := range keys {
			if !yield(minio.ObjectInfo{Key: key}) {
				return
			}
		}
	}
	results, err := b.api.RemoveObjectsWithIter(ctx, b.name, ask, minio.RemoveObjectsOptions{})
	if err != nil {
		return nil, classify(err)
	}
	var errs []error
	for r := range results {
		_, asked := keys[r.ObjectName]
		switch {
		case r.Err != nil:
			errs = append(errs, classify(r.Err))
		case asked:
			gone = append(gone, r.ObjectName)
		}
	}
	slices.Sort(gone)
	gone = slices.Compact(gone)
	if len(errs) == 0 && len(gone) < len(keys) {
		errs = append(errs, errors.Join(ctx.Err(), fmt.Errorf("the store has answered for %d of %d objects", len(gone), len(keys))))
	}
	return gone, blob.First(errs)
}

// unknownRequest reports whether a store has refused a request because it does not have it.
func unknownRequest(err error) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (e.Code == "NotImplemented" || e.Code == "MethodNotAllowed" || e.StatusCode == http.StatusNotImplemented ||
		e.StatusCode == http.StatusMethodNotAllowed)
}
