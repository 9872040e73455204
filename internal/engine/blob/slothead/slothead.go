// Package slothead encodes the header that precedes each content in a pack, a file or
// object with several contents. Integers are little-endian (docs/formats/pack.md):
//
//	 0       4         8      12            28        32           36         40
//	┌───────┬─────────┬──────┬─────────────┬─────────┬────────────┬──────────┬──────────────────┐
//	│ SDPK  │ version │ size │ id of the   │ block   │ CRC-32C of │ CRC-32C  │ content          │
//	│       │ u32     │ u32  │ pack        │ u32     │ content    │ of these │ size bytes       │
//	└───────┴─────────┴──────┴─────────────┴─────────┴────────────┴──────────┴──────────────────┘
//
// Block is the first block of the slot, as in the content's name. The block size depends on the
// store.
package slothead

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/engine/blob"
)

// Sizes in bytes.
const (
	// MaxContent is the largest size of content that fits a slot.
	MaxContent = 32 << 10
	// HeaderSize is the size of the header.
	HeaderSize = 40
)

const (
	magic         = "SDPK" // the first bytes of a header
	formatVersion = 1      // the newest version that this program reads
)

// PackID returns the id at the end of a pack's name. It fails if pack is not a valid name.
func PackID(pack string) (id uuid.UUID, err error) {
	if _, ok := blob.ShardOf(pack); !ok {
		return id, fmt.Errorf("%q is no name of a pack", pack)
	}
	return uuid.Parse(pack[len(pack)-len(id.String()):])
}

// PutHeader writes the header into the first HeaderSize bytes of b, for the content in the rest of
// b. first is the first block of the slot in pack id.
func PutHeader(b []byte, id uuid.UUID, first int64) {
	le := binary.LittleEndian
	content := b[HeaderSize:]
	copy(b, magic)
	le.PutUint32(b[4:], formatVersion)
	le.PutUint32(b[8:], uint32(len(content)))
	copy(b[12:], id[:])
	le.PutUint32(b[28:], uint32(first))
	le.PutUint32(b[32:], digest.CRC32C(content))
	le.PutUint32(b[36:], digest.CRC32C(b[:36]))
}

// Header is the decoded header of a slot.
type Header struct {
	First int64  // first block of the slot
	Size  int    // length of the content in bytes
	CRC   uint32 // CRC-32C of the content
}

// ReadHeader decodes the header at the beginning of b. ok is false if b does not begin with an
// intact header of a slot of pack id, or if the content is too large. An unsupported format version
// is an error.
func ReadHeader(b []byte, id uuid.UUID) (h Header, ok bool, err error) {
	le := binary.LittleEndian
	if len(b) < HeaderSize || string(b[:4]) != magic || le.Uint32(b[36:]) != digest.CRC32C(b[:36]) || uuid.UUID(b[12:28]) != id {
		return Header{}, false, nil
	}
	if v := le.Uint32(b[4:]); v != formatVersion {
		return Header{}, false, fmt.Errorf("a pack has format version %d, this program reads %d", v, formatVersion)
	}
	h = Header{First: int64(le.Uint32(b[28:])), Size: int(le.Uint32(b[8:])), CRC: le.Uint32(b[32:])}
	return h, h.Size <= MaxContent, nil
}
