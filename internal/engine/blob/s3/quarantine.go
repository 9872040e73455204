package s3

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Quarantine lists and purges the objects below quarantine/ of a Bucket (blob.Quarantine).
type Quarantine struct{ b *Bucket }

var _ blob.Quarantine = (*Quarantine)(nil)

// List calls fn for every object in the quarantine and stops at the first error of fn, which it
// returns (blob.Quarantine). It returns an error if ctx ends or the listing fails, so nil means
// that the list was complete.
func (q *Quarantine) List(ctx context.Context, fn func(blob.Quarantined) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	prefix := q.b.key(quarantineDir)
	opts := minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: pageSize}
	for o := range q.b.api.ListObjectsIter(ctx, q.b.name, opts) {
		if o.Err != nil {
			return fmt.Errorf("list the quarantine: %w", classify(o.Err))
		}
		item := quarantinedAt(strings.TrimPrefix(o.Key, prefix))
		if item.Size = drive.ByteSize(o.Size); item.Name == "" && item.Size == 0 {
			continue // the marker of an empty folder, made by a console
		}
		if err := fn(item); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// quarantinedAt returns the item at a place below quarantine/. Objects placed there by hand are
// included, without a date.
func quarantinedAt(place string) blob.Quarantined {
	date, name, found := strings.Cut(place, "/")
	if !found || date == "" {
		return blob.Quarantined{Name: place}
	}
	return blob.Quarantined{Date: date, Name: name}
}

// Purge deletes one object of the quarantine; a missing one is not an error (blob.Quarantine).
func (q *Quarantine) Purge(ctx context.Context, item blob.Quarantined) error {
	place := item.Name
	if item.Date != "" {
		place = item.Date + "/" + item.Name
	}
	// A store that keeps objects as files may interpret dot segments.
	if segments := strings.Split(place, "/"); place == "" || slices.Contains(segments, "..") || slices.Contains(segments, ".") {
		return fmt.Errorf("purge %q: not in the quarantine", place)
	}
	if err := q.b.remove(ctx, q.b.key(quarantineDir)+place); err != nil {
		return fmt.Errorf("purge the quarantine: %w", err)
	}
	return nil
}
