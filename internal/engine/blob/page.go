package blob

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxPage is how many entries one ListPage returns at most: as many as S3 lists in a request.
const MaxPage = 1000

// blobsDir begins the places of contents.
const blobsDir = "blobs/"

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

// SortPage puts entries in the order of their places; those of one place stay in theirs.
func SortPage(page []Stray) {
	slices.SortStableFunc(page, func(a, b Stray) int { return cmp.Compare(a.Place, b.Place) })
}
