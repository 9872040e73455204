package pack

import (
	"encoding/binary"
	"fmt"

	"github.com/google/uuid"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/engine/blob"
)

// Sizes in bytes.
const (
	// Block is what slots are made of: blocks of the file system, so that a slot can be freed.
	Block = 4 << 10
	// MaxContent is the largest content that is put into a pack.
	MaxContent = 32 << 10
	// HeadSize is what a slot has in front of its content.
	HeadSize = 40

	maxBlocks = 16 << 20 / Block // of a pack
)

const (
	magic         = "SDPK"
	formatVersion = 1
)

// Suffix ends the name of a pack's file.
const Suffix = ".pack"

func blocksFor(size int) int64 { return (int64(size) + HeadSize + Block - 1) / Block }

// idOf returns the id that the name of a pack ends with.
func idOf(name string) (id uuid.UUID, err error) {
	if _, ok := blob.ShardOf(name); !ok {
		return id, fmt.Errorf("%q is no name of a pack", name)
	}
	return uuid.Parse(name[len(name)-len(id.String()):])
}

// seal writes the head in front of the content in b, which begins with room for it.
func seal(b []byte, id uuid.UUID, at blob.Slot) {
	le := binary.LittleEndian
	content := b[HeadSize:]
	copy(b, magic)
	le.PutUint32(b[4:], formatVersion)
	le.PutUint32(b[8:], uint32(len(content)))
	copy(b[12:], id[:])
	le.PutUint32(b[28:], uint32(at.First))
	le.PutUint32(b[32:], digest.CRC32C(content))
	le.PutUint32(b[36:], digest.CRC32C(b[:36]))
}

// head is what a slot says of its content.
type head struct {
	size int
	crc  uint32
}

// readHead reads the head of the slot that begins at that block; false: none does.
func readHead(b []byte, id uuid.UUID, first int64) (h head, ok bool, err error) {
	le := binary.LittleEndian
	if len(b) < HeadSize || string(b[:4]) != magic || le.Uint32(b[36:]) != digest.CRC32C(b[:36]) || uuid.UUID(b[12:28]) != id || int64(le.Uint32(b[28:])) != first {
		return head{}, false, nil
	}
	if v := le.Uint32(b[4:]); v != formatVersion {
		return head{}, false, fmt.Errorf("a pack has format version %d, this program reads %d", v, formatVersion)
	}
	h = head{size: int(le.Uint32(b[8:])), crc: le.Uint32(b[32:])}
	return h, h.size <= MaxContent, nil
}
