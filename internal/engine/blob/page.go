package blob

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// MaxPage is how many entries one ListPage returns at most: as many as S3 lists in a request.
const MaxPage = 1000

// blobsDir begins the places of contents.
const blobsDir = "blobs/"

// Pager is an optional power of a Store: to show what it holds in order, a page at a time, so that
// it can be compared with rows in the same order and gone on with later. What List shows is what
// lies in the shards, in the order of places, and what is odd.
type Pager interface {
	// ListPage returns up to limit entries of a shard whose places are greater than after, in the
	// order of their places' bytes; more says that others may follow. The size of content is its
	// length, as Stat tells it.
	ListPage(ctx context.Context, shard, after string, limit int) (page []Stray, more bool, err error)
	// ListOdd calls fn for everything that lies in no shard, in no order.
	ListOdd(ctx context.Context, fn func(Stray) error) error
}

// Shards returns the names of all shards in order.
func Shards() []string {
	all := make([]string, 256)
	for i := range all {
		all[i] = fmt.Sprintf("%02x", i)
	}
	return all
}

// IsShard reports whether a directory below blobs is one of the shards.
func IsShard(name string) bool {
	return len(name) == 2 && isHex(name[0]) && isHex(name[1])
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// PlaceIn returns the place that an entry of a shard has in every store: that of content, if its
// name belongs there.
func PlaceIn(shard, name string) string { return blobsDir + shard + "/" + name }

// shardOf returns the shard that a place lies in.
func shardOf(place string) (shard string, ok bool) {
	rest, below := strings.CutPrefix(place, blobsDir)
	shard, _, inside := strings.Cut(rest, "/")
	return shard, below && inside && IsShard(shard)
}

// PagerOf returns the power of a store, or one that lists all of it for each page: for stores that
// hold little.
func PagerOf(s Store) Pager {
	if p, ok := s.(Pager); ok {
		return p
	}
	return lister{s}
}

// lister is a Pager over a Store that is none.
type lister struct{ Store }

// ListPage implements Pager.
func (l lister) ListPage(ctx context.Context, shard, after string, limit int) (page []Stray, more bool, err error) {
	err = l.List(ctx, func(s Stray) error {
		if in, ok := shardOf(s.Place); ok && in == shard && s.Place > after {
			page = append(page, s)
		}
		return nil
	})
	SortPage(page)
	if more = len(page) > limit; more {
		page = page[:limit]
	}
	return page, more, err
}

// ListOdd implements Pager.
func (l lister) ListOdd(ctx context.Context, fn func(Stray) error) error {
	return l.List(ctx, func(s Stray) error {
		if _, ok := shardOf(s.Place); ok {
			return nil
		}
		return fn(s)
	})
}

// SortPage puts entries in the order of their places.
func SortPage(page []Stray) {
	slices.SortFunc(page, func(a, b Stray) int { return cmp.Compare(a.Place, b.Place) })
}
