package s3

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/minio/minio-go/v7"
	"golang.org/x/sync/errgroup"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/s3/pack"
)

// List calls fn for every object below blobs/, with the contents of packs one by one instead of the
// pack (blob.Store). It fails if a pack cannot be read, and stops at the first error of fn.
func (s *Store) List(ctx context.Context, fn func(blob.Entry) error) error {
	var packs []blob.Entry // objects of packs, grouped by pack
	flush := func() error {
		all, err := s.packContents(ctx, packs)
		packs = packs[:0]
		for _, stray := range all {
			if err == nil {
				err = fn(stray)
			}
		}
		return err
	}
	opts := minio.ListObjectsOptions{Prefix: s.b.key(blobsDir), Recursive: true, MaxKeys: pageSize}
	err := s.list(ctx, opts, func(stray blob.Entry) error {
		if _, ok := packOfPlace(stray.Path); !ok {
			return fn(stray)
		}
		if n := len(packs); n >= maxConcurrentPacks && groupOf(packs[n-1]) != groupOf(stray) {
			if err := flush(); err != nil {
				return err
			}
		}
		packs = append(packs, stray)
		return nil
	})
	if err == nil {
		err = flush()
	}
	return err
}

// list calls fn for every object that opts select, objects of packs included. It stops at the first
// error of fn.
func (s *Store) list(ctx context.Context, opts minio.ListObjectsOptions, fn func(blob.Entry) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for o := range s.b.api.ListObjectsIter(ctx, s.b.name, opts) {
		if o.Err != nil {
			return fmt.Errorf("list contents: %w", classify(o.Err))
		}
		place := strings.TrimPrefix(o.Key, s.b.prefix)
		if err := fn(blob.Entry{Path: place, Name: nameOf(place), Size: drive.ByteSize(o.Size)}); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// packOfPlace returns the name of the pack to which the object at place belongs; ok is false for
// other objects.
func packOfPlace(place string) (name string, ok bool) {
	name, ok = pack.NameOfObject(path.Base(place))
	shard, _ := blob.ShardOf(name)
	return name, ok && blob.ShardPath(shard, path.Base(place)) == place
}

// packContents returns the contents of the packs to which objects belong, grouped by pack. objects
// must be grouped by pack too.
func (s *Store) packContents(ctx context.Context, objects []blob.Entry) (all []blob.Entry, err error) {
	var packs []string
	of := map[string][]string{}
	for _, o := range objects {
		name, _ := packOfPlace(o.Path)
		if of[name] == nil {
			packs = append(packs, name)
		}
		of[name] = append(of[name], path.Base(o.Path))
	}
	lists := make([][]pack.Content, len(packs))
	var reads errgroup.Group
	reads.SetLimit(maxConcurrentPacks)
	for i, name := range packs {
		reads.Go(func() (err error) {
			lists[i], err = s.packs.List(ctx, name, of[name])
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, fmt.Errorf("list contents: %w", err)
	}
	for i, list := range lists {
		shard, _ := blob.ShardOf(packs[i])
		for _, c := range list {
			name := c.Slot.Name()
			all = append(all, blob.Entry{Path: blob.ShardPath(shard, name), Name: name, Size: drive.ByteSize(c.Size)})
		}
	}
	return all, nil
}

// errPageFull stops a listing when the page is full.
var errPageFull = errors.New("the page is full")

// ListPage returns up to limit entries of a shard after a place, ordered by place. It costs one
// listing request if limit is below 1,000, and one read per pack on the page.
func (s *Store) ListPage(ctx context.Context, shard, after string, limit int) (page []blob.Entry, more bool, err error) {
	for more = true; more && len(page) == 0 && err == nil; { // a page may be empty if after lies beyond all contents of its packs
		page, after, more, err = s.listPageStep(ctx, shard, after, limit)
	}
	return page, more, err
}

// listPageStep is one step of ListPage. Its page may be empty although more follow; end is the
// place from which to continue then.
func (s *Store) listPageStep(ctx context.Context, shard, after string, limit int) (page []blob.Entry, end string, more bool, err error) {
	objects, more, err := s.objectsAfter(ctx, shard, after, limit)
	for len(objects) > 0 && len(page) < limit && err == nil {
		n := groupedPrefix(objects, maxConcurrentPacks)
		var some []blob.Entry
		some, err = s.entriesAfter(ctx, objects[:n], after)
		page, end, objects = append(page, some...), objects[n-1].Path, objects[n:]
	}
	if err != nil {
		return nil, "", false, err
	}
	more = more || len(objects) > 0
	blob.SortEntries(page)
	page = slices.CompactFunc(page, func(a, b blob.Entry) bool { return a.Path == b.Path })
	if len(page) > limit {
		page, more = page[:limit], true
	}
	return page, end, more, nil
}

// objectsAfter returns limit objects of a shard with places greater than after, and more if the
// limit falls inside a group (see stem). The contents of a pack sort before the pack's own objects
// and among the objects named like them, so a group must not be split.
func (s *Store) objectsAfter(ctx context.Context, shard, after string, limit int) (all []blob.Entry, more bool, err error) {
	limit = min(limit, pageSize-1) // the object behind them comes with the same request
	opts := minio.ListObjectsOptions{Prefix: s.b.key(blob.ShardPath(shard, "")), Recursive: true, MaxKeys: limit + 1}
	if after != "" {
		opts.StartAfter = s.b.key(after)
	}
	err = s.list(ctx, opts, func(stray blob.Entry) error {
		if n := len(all); n >= limit && groupOf(all[n-1]) != groupOf(stray) {
			return errPageFull
		}
		all = append(all, stray)
		return nil
	})
	if errors.Is(err, errPageFull) {
		return all, true, nil
	}
	return all, false, err
}

// groupOf returns the group of an object: the part of its name that a pack and the objects named
// like its contents have in common.
func groupOf(stray blob.Entry) string {
	before, _, _ := strings.Cut(path.Base(stray.Path), ".")
	return before
}

// groupedPrefix returns the length of the shortest prefix of objects that contains n packs and ends
// at the end of a group, or all of them.
func groupedPrefix(objects []blob.Entry, n int) int {
	for i, stray := range objects {
		if _, ok := packOfPlace(stray.Path); ok {
			n--
		}
		if n == 0 && (i+1 == len(objects) || groupOf(stray) != groupOf(objects[i+1])) {
			return i + 1
		}
	}
	return len(objects)
}

// entriesAfter returns the entries that objects contribute to a listing: the objects themselves,
// and contents of packs with places greater than after.
func (s *Store) entriesAfter(ctx context.Context, objects []blob.Entry, after string) (all []blob.Entry, err error) {
	var packs []blob.Entry
	for _, stray := range objects {
		if _, ok := packOfPlace(stray.Path); ok {
			packs = append(packs, stray)
		} else {
			all = append(all, stray)
		}
	}
	contents, err := s.packContents(ctx, packs)
	contents = slices.DeleteFunc(contents, func(stray blob.Entry) bool { return stray.Path <= after })
	return append(all, contents...), err
}

// ListUnsharded calls fn for every object outside of the shards: it lists the objects directly
// below blobs, and the objects below each prefix that is not a shard.
func (s *Store) ListUnsharded(ctx context.Context, fn func(blob.Entry) error) error {
	opts := minio.ListObjectsOptions{Prefix: s.b.key(blobsDir), MaxKeys: pageSize}
	return s.list(ctx, opts, func(stray blob.Entry) error {
		below, isPrefix := strings.CutSuffix(strings.TrimPrefix(stray.Path, blobsDir), "/")
		switch {
		case isPrefix && blob.IsShard(below):
			return nil
		case isPrefix:
			return s.list(ctx, minio.ListObjectsOptions{Prefix: s.b.key(stray.Path), Recursive: true, MaxKeys: pageSize}, fn)
		default:
			return fn(stray)
		}
	})
}
