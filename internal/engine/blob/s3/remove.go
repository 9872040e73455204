package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/engine/blob"
)

// RemoveAll deletes contents and returns the names that are gone, missing ones included; err is set
// if some are not. Contents of one pack are removed together. The names are then also deleted as
// objects, 1,000 per DeleteObjects, except those in packs that failed or were never sent. Once a
// store has refused DeleteObjects, objects are deleted by one request each, concurrently.
func (s *Store) RemoveAll(ctx context.Context, names []string) (gone []string, err error) {
	return s.removeAll(ctx, names, false)
}

// Reclaim deletes contents and returns the names that are gone. It may leave contents in packs,
// without an error: it rewrites a pack only if that writes at most pack.MaxWriteRatio times the
// bytes that it frees.
func (s *Store) Reclaim(ctx context.Context, names []string) (gone []string, err error) {
	return s.removeAll(ctx, names, true)
}

// removeAll deletes contents from packs and as objects, and returns the names that are durably
// gone; the caller must try the others again. With frugal, it leaves contents in packs whose
// rewriting would cost too much, without an error. gone is valid with an error too.
func (s *Store) removeAll(ctx context.Context, names []string, frugal bool) (gone []string, err error) {
	gone, rest, err := s.removeFromPacks(ctx, names, frugal)
	some, restErr := s.removeObjects(ctx, rest)
	return append(gone, some...), errors.Join(err, restErr)
}

// removeObjects deletes the objects called names and returns the names that are gone. Missing
// objects, and names that cannot be those of content, count as gone. gone is valid with an error
// too.
func (s *Store) removeObjects(ctx context.Context, names []string) (gone []string, err error) {
	keys := make(map[string]string, len(names)) // name by key
	for _, name := range names {
		key, err := s.b.blobKey(name)
		if err != nil {
			gone = append(gone, name) // such a name is never given, so it cannot exist
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
	return gone, wrapError("remove contents", err)
}

// removeKeys deletes objects with DeleteObjects, or one by one if the store does not support it.
// keys maps keys to names.
func (b *Bucket) removeKeys(ctx context.Context, keys map[string]string) (gone []string, err error) {
	if !b.noBulkDelete.Load() {
		gone, err = b.removeAll(ctx, keys)
		if !unknownRequest(err) {
			return gone, err
		}
		b.noBulkDelete.Store(true)
	}
	return blob.RemoveEach(ctx, slices.Collect(maps.Keys(keys)), b.remove)
}

// removeAll deletes objects with DeleteObjects and returns the keys that the store confirms as
// gone, missing ones included. Keys without an answer are not gone.
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
	return gone, blob.JoinFirst(errs)
}

// unknownRequest reports whether the store refused a request as unsupported.
func unknownRequest(err error) bool {
	e, ok := errors.AsType[minio.ErrorResponse](err)
	return ok && (e.Code == "NotImplemented" || e.Code == "MethodNotAllowed" || e.StatusCode == http.StatusNotImplemented ||
		e.StatusCode == http.StatusMethodNotAllowed)
}
