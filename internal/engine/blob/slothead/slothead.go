// Package slothead is the head that a content has in front of it where several lie in one file or
// object. Integers are little-endian (docs/formats/pack.md):
//
//	 0       4         8      12            28        32           36         40
//	┌───────┬─────────┬──────┬─────────────┬─────────┬────────────┬──────────┬──────────────────┐
//	│ SDPK  │ version │ size │ id of the   │ block   │ CRC-32C of │ CRC-32C  │ content          │
//	│       │ u32     │ u32  │ pack        │ u32     │ content    │ of these │ size bytes       │
//	└───────┴─────────┴──────┴─────────────┴─────────┴────────────┴──────────┴──────────────────┘
//
// Block is the one at which the slot begins by the name of the content. How large a block is, the
// store says.
package slothead

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/engine/blob"
)

// Sizes in bytes.
const (
	// MaxContent is the largest content that is put into a slot.
	MaxContent = 32 << 10
	// HeadSize is what a slot has in front of its content.
	HeadSize = 40
)

const (
	magic         = "SDPK"
	formatVersion = 1
)

// IDOf returns the id that the name of a pack ends with.
func IDOf(pack string) (id uuid.UUID, err error) {
	if _, ok := blob.ShardOf(pack); !ok {
		return id, fmt.Errorf("%q is no name of a pack", pack)
	}
	return uuid.Parse(pack[len(pack)-len(id.String()):])
}

// Seal writes the head in front of the content in b, which begins with room for it.
func Seal(b []byte, id uuid.UUID, first int64) {
	le := binary.LittleEndian
	content := b[HeadSize:]
	copy(b, magic)
	le.PutUint32(b[4:], formatVersion)
	le.PutUint32(b[8:], uint32(len(content)))
	copy(b[12:], id[:])
	le.PutUint32(b[28:], uint32(first))
	le.PutUint32(b[32:], digest.CRC32C(content))
	le.PutUint32(b[36:], digest.CRC32C(b[:36]))
}

// Head is what a slot says of its content.
type Head struct {
	First int64 // block
	Size  int
	CRC   uint32
}

// Read reads the head that b begins with; false: it begins with none of a slot of that pack.
func Read(b []byte, id uuid.UUID) (h Head, ok bool, err error) {
	le := binary.LittleEndian
	if len(b) < HeadSize || string(b[:4]) != magic || le.Uint32(b[36:]) != digest.CRC32C(b[:36]) || uuid.UUID(b[12:28]) != id {
		return Head{}, false, nil
	}
	if v := le.Uint32(b[4:]); v != formatVersion {
		return Head{}, false, fmt.Errorf("a pack has format version %d, this program reads %d", v, formatVersion)
	}
	h = Head{First: int64(le.Uint32(b[28:])), Size: int(le.Uint32(b[8:])), CRC: le.Uint32(b[32:])}
	return h, h.Size <= MaxContent, nil
}
