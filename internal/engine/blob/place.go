package blob

import (
	"fmt"
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
	if at, ok := SlotOf(name); ok {
		name = at.Pack
	}
	return shardOf(name)
}

// shardOf is ShardOf, but for slots.
func shardOf(name string) (shard string, ok bool) {
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

// Slot is the place of a small content in a pack, a file in which several lie. The name of content
// tells it: put-<generation>-<id>.<first block>.<blocks>, in four digits and two of base 16. The
// pack is put-<generation>-<id>, what its first content would have been named. A store that has no
// such pack keeps the content under that name as it keeps any other.
type Slot struct {
	Pack   string
	First  int64 // block
	Blocks int64 // 1 to 255
}

// slotDigits is the form of what a slot adds to the name of its pack.
const slotDigits = ".ffff.ff"

// Name returns the name of the content in a slot.
func (s Slot) Name() string { return fmt.Sprintf("%s.%04x.%02x", s.Pack, s.First, s.Blocks) }

// SlotOf reads the name of content in a pack; false: it is none that the project gives.
func SlotOf(name string) (s Slot, ok bool) {
	cut := len(name) - len(slotDigits)
	if cut < 0 || !strings.HasPrefix(name, PutPrefix) {
		return Slot{}, false
	}
	digits := name[cut:]
	for i := range digits {
		if dot := slotDigits[i] == '.'; dot != (digits[i] == '.') || !dot && !isHex(digits[i]) {
			return Slot{}, false
		}
	}
	first, err := strconv.ParseInt(digits[1:5], 16, 64)
	blocks, berr := strconv.ParseInt(digits[6:], 16, 64)
	if _, ok := shardOf(name[:cut]); !ok || err != nil || berr != nil || blocks == 0 {
		return Slot{}, false
	}
	return Slot{Pack: name[:cut], First: first, Blocks: blocks}, true
}

// Together returns the bounds of the names of all contents that lie in the same pack as one of that
// name: they are between from and to. false: it lies in none.
func Together(name string) (from, to string, ok bool) {
	at, ok := SlotOf(name)
	return at.Pack + ".", at.Pack + "/", ok // '/' follows '.'
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
