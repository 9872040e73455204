package pack

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/slothead"
)

// Sizes in bytes.
const (
	// Unit is the granularity of slots and of the offsets in their names.
	Unit = 512
	// IndexSize is the size of the index at the beginning of an object.
	IndexSize = 4 << 10
	// MaxSize is the largest size of a pack.
	MaxSize = 1 << 20

	indexHead  = 32 // fixed part of the index
	indexEntry = 8  // one entry of the index
)

const (
	// indexUnits, maxUnits and maxContents are the length of the index and of a pack in units, and
	// the number of contents of a pack.
	indexUnits  = IndexSize / Unit
	maxUnits    = MaxSize / Unit
	maxContents = 256
)

const (
	magic         = "SDPI" // the first bytes of an index
	formatVersion = 1      // the newest version that this program reads
)

// suffix is at the end of the name of a pack's first object. The names of later objects have a dot
// and random hexadecimal digits after it.
const (
	suffix = ".pack"
	digits = 16
)

// ObjectName returns the name of a pack's first object.
func ObjectName(pack string) string { return pack + suffix }

// newObjectName returns a new random name for a rewritten object of a pack.
func newObjectName(pack string) string {
	var b [digits / 2]byte
	_, _ = rand.Read(b[:]) // it never fails
	return ObjectName(pack) + "." + hex.EncodeToString(b[:])
}

// NameOfObject returns the name of the pack that an object belongs to; ok is false if it belongs to
// none.
func NameOfObject(object string) (pack string, ok bool) {
	pack, rest, ok := strings.Cut(object, suffix)
	if !ok || !strings.HasPrefix(pack, blob.PutPrefix) {
		return "", false
	}
	if _, slot := blob.SlotOf(pack); slot {
		return "", false
	}
	if rest != "" {
		b, err := hex.DecodeString(strings.TrimPrefix(rest, "."))
		if err != nil || rest != "."+hex.EncodeToString(b) || len(b) != digits/2 {
			return "", false
		}
	}
	_, ok = blob.ShardOf(pack)
	return pack, ok
}

// unitsFor returns the number of units of a slot for size bytes of content.
func unitsFor(size int) int64 { return (int64(size) + slothead.HeaderSize + Unit - 1) / Unit }

// entry is one content in the index of an object.
type entry struct {
	first int64 // first unit according to the content's name
	at    int64 // unit at which the slot begins in this object
	size  int   // size of the content in bytes
}

// units returns the length of the slot in units.
func (e entry) units() int64 { return unitsFor(e.size) }

// slotBytes returns the bytes of the slot in object; false if object is too short.
func (e entry) slotBytes(object []byte) ([]byte, bool) {
	from, to := e.at*Unit, (e.at+e.units())*Unit
	if to > int64(len(object)) {
		return nil, false
	}
	return object[from:to:to], true
}

// slot returns the slot of e in a pack.
func (e entry) slot(pack string) blob.Slot {
	return blob.Slot{Pack: pack, First: e.first, Blocks: e.units()}
}

// errDamaged reports an invalid index.
var errDamaged = errors.New("the index of a pack is damaged")

// putIndex writes the index of pack id to the beginning of b.
func putIndex(b []byte, id uuid.UUID, entries []entry) {
	le := binary.LittleEndian
	copy(b, magic)
	le.PutUint32(b[4:], formatVersion)
	copy(b[8:], id[:])
	le.PutUint32(b[24:], uint32(len(entries)))
	for i, e := range entries {
		at := b[indexHead+i*indexEntry:]
		le.PutUint16(at, uint16(e.first))
		le.PutUint16(at[2:], uint16(e.at))
		le.PutUint32(at[4:], uint32(e.size))
	}
	le.PutUint32(b[28:], indexSum(b[:indexHead+len(entries)*indexEntry]))
}

// indexSum returns the CRC-32C of an index without its checksum field.
func indexSum(b []byte) uint32 {
	return digest.CRC32C(append(append(make([]byte, 0, len(b)), b[:28]...), b[indexHead:]...))
}

// readIndex decodes the index of pack id. It returns errDamaged if the index is invalid, and an
// error for another format version.
func readIndex(b []byte, id uuid.UUID) ([]entry, error) {
	le := binary.LittleEndian
	if len(b) < IndexSize || string(b[:4]) != magic {
		return nil, errDamaged
	}
	if v := le.Uint32(b[4:]); v != formatVersion {
		return nil, fmt.Errorf("a pack has format version %d, this program reads %d", v, formatVersion)
	}
	count := int(le.Uint32(b[24:]))
	if count > maxContents || uuid.UUID(b[8:24]) != id || le.Uint32(b[28:]) != indexSum(b[:indexHead+count*indexEntry]) {
		return nil, errDamaged
	}
	entries := make([]entry, count)
	for i := range entries {
		at := b[indexHead+i*indexEntry:]
		e := entry{first: int64(le.Uint16(at)), at: int64(le.Uint16(at[2:])), size: int(le.Uint32(at[4:]))}
		if e.size > slothead.MaxContent || e.at < indexUnits || i > 0 && e.first <= entries[i-1].first {
			return nil, errDamaged
		}
		entries[i] = e
	}
	return entries, nil
}

// scan finds the slots of an object by their headers, without the index, for an object whose index
// is damaged. Bytes that are no header are skipped; it fails for a header of a newer format.
func scan(object []byte, id uuid.UUID) (entries []entry, err error) {
	for at := int64(indexUnits); at*Unit < int64(len(object)); {
		h, ok, err := slothead.ReadHeader(object[at*Unit:], id)
		if err != nil {
			return nil, err
		}
		if !ok {
			at++
			continue
		}
		e := entry{first: h.First, at: at, size: h.Size}
		entries, at = append(entries, e), at+e.units()
	}
	return entries, nil
}

// content returns the content of slot at from its bytes b. whole reports whether its checksum
// matches. content is nil if b is not that slot.
func content(b []byte, id uuid.UUID, at blob.Slot) (content []byte, whole bool, err error) {
	h, ok, err := slothead.ReadHeader(b, id)
	end := slothead.HeaderSize + h.Size
	if err != nil || !ok || h.First != at.First || unitsFor(h.Size) != at.Blocks || len(b) < end {
		return nil, false, err
	}
	content = b[slothead.HeaderSize:end:end]
	return content, digest.CRC32C(content) == h.CRC, nil
}
