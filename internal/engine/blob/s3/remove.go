package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"smartdrive/internal/engine/blob"
)

// RemoveAll implements blob.Store with DeleteObjects, which takes 1,000 keys a request. A
// store that does not know the request is not asked a second time: there each content is deleted by
// itself, many at once.
func (s *Store) RemoveAll(ctx context.Context, names []string) (gone []string, err error) {
	if s.b.singly.Load() {
		return blob.RemoveEach(ctx, names, s.Remove)
	}
	keys := make(map[string]string, len(names)) // names by key
	for _, name := range names {
		key, err := s.b.blobKey(name)
		if err != nil {
			gone = append(gone, name) // such a name was never given, so it is not there
			continue
		}
		keys[key] = name
	}
	removed, err := s.b.removeAll(ctx, keys)
	if unknownRequest(err) {
		s.b.singly.Store(true)
		return blob.RemoveEach(ctx, names, s.Remove)
	}
	for _, key := range removed {
		gone = append(gone, keys[key])
	}
	if err != nil {
		return gone, fmt.Errorf("remove contents: %w", err)
	}
	return gone, nil
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
