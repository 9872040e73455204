package blob

import (
	"cmp"
	"fmt"
	"slices"
)

// MaxPage is the largest number of entries that one ListPage returns, equal to S3's limit per
// listing request.
const MaxPage = 1000

// blobsDir is the prefix of all places of content.
const blobsDir = "blobs/"

// Shards returns the names of all 256 shards, in order: 00 to ff.
func Shards() []string {
	all := make([]string, 256)
	for i := range all {
		all[i] = fmt.Sprintf("%02x", i)
	}
	return all
}

// IsShard reports whether name is the name of a shard: two lower-case hexadecimal digits.
func IsShard(name string) bool {
	return len(name) == 2 && isHex(name[0]) && isHex(name[1])
}

// isHex reports whether c is a lower-case hexadecimal digit.
func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

// ShardPath returns the place of the entry called name in a shard: blobs/SHARD/NAME. It does not
// check that name belongs into that shard.
func ShardPath(shard, name string) string { return blobsDir + shard + "/" + name }

// SortEntries sorts entries by place, stably.
func SortEntries(page []Entry) {
	slices.SortStableFunc(page, func(a, b Entry) int { return cmp.Compare(a.Path, b.Path) })
}
