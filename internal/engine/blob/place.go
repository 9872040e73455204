package blob

import (
	"strconv"
	"strings"

	"smartdrive/internal/base/drive"
)

// PutPrefix begins the names of small files: put-<generation>-<id>.
const PutPrefix = "put-"

// ShardOf returns the directory of content, the last two digits of its id, and whether the name is
// one that the project gives. A UUIDv7 begins with the time, so its first digits would be the same
// for years; the last ones are random.
func ShardOf(name string) (shard string, ok bool) {
	id := name
	if rest, ok := strings.CutPrefix(name, PutPrefix); ok {
		generation, after, ok := strings.Cut(rest, "-")
		if n, err := strconv.ParseUint(generation, 10, 63); !ok || err != nil || strconv.FormatUint(n, 10) != generation {
			return "", false
		}
		id = after
	}
	if _, err := drive.ParseID[drive.BlobID](id); err != nil {
		return "", false
	}
	return id[len(id)-2:], true
}

// Admits keeps a part inside its file and its slot.
func (r Ref) Admits(w Write) error {
	end := drive.MaxFileSize
	if r.Size != UnknownSize {
		end = r.Size
	}
	parts := max(1, (end+r.PartSize-1)/r.PartSize)
	if w.N < 0 || drive.ByteSize(w.N) >= parts {
		return drive.Fail(drive.PartRange, "limit", parts, "sent", w.N)
	}
	if limit := min(r.PartSize, end-drive.ByteSize(w.N)*r.PartSize); w.Size > limit {
		return drive.Fail(drive.PartSize, "limit", limit, "sent", w.Size)
	}
	return nil
}
