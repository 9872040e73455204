package blob

import (
	"fmt"
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// PutPrefix is the prefix of the names of small files: put-GENERATION-ID.
const PutPrefix = "put-"

// ShardOf returns the shard of the content called name: the last two digits of its id, or of its
// pack's id for a slot. ok is false if the project does not give such names. The last digits are
// used because they are random, whereas a UUIDv7 begins with the time and would fill one shard for
// years.
func ShardOf(name string) (shard string, ok bool) {
	if at, ok := SlotOf(name); ok {
		name = at.Pack
	}
	return shardOf(name)
}

// shardOf returns the shard of a name that is the id of a blob, or an id after PutPrefix and a
// generation: the last two digits of the id. It returns false for any other name.
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

// Slot is the position of a small content in its pack, a file or object that holds several
// contents. The name of such content encodes the position: put-GENERATION-ID.FIRST.BLOCKS, with
// FIRST in four and BLOCKS in two hexadecimal digits. The pack is called put-GENERATION-ID. A store
// without that pack keeps the content under the full name like any other content.
type Slot struct {
	Pack   string
	First  int64 // first block in the pack
	Blocks int64 // length in blocks, 1 to 255
}

// slotDigits is the form of the suffix that a slot adds to the name of its pack.
const slotDigits = ".ffff.ff"

// Name returns the name of the content in this slot.
func (s Slot) Name() string { return fmt.Sprintf("%s.%04x.%02x", s.Pack, s.First, s.Blocks) }

// SlotOf parses the name of content in a pack. ok is false if name has another form or no blocks.
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

// PackRange returns the range from < name < to that contains the names of all contents in the same
// pack as name. ok is false if name is not the name of a slot.
func PackRange(name string) (from, to string, ok bool) {
	at, ok := SlotOf(name)
	return at.Pack + ".", at.Pack + "/", ok // '/' follows '.'
}

// CheckWrite checks w against the upload's part size and declared size. It returns PartRange if the
// number is negative or outside the file, and PartSize if the part is larger than its place in the
// file allows. A shorter part and UnknownSize pass.
func (r Ref) CheckWrite(w Write) error {
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
