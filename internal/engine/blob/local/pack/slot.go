package pack

import (
	"github.com/google/uuid"

	"example.org/smartdrive/internal/engine/blob/slothead"
)

// Sizes in bytes.
const (
	// Block is the granularity of slots: a block of the file system, so that a slot can be freed.
	Block = 4 << 10
	// MaxContent is the largest content in a pack.
	MaxContent = slothead.MaxContent
	// HeaderSize is the size of the header before a slot's content.
	HeaderSize = slothead.HeaderSize

	maxBlocks = 16 << 20 / Block // of a pack
)

// Suffix is at the end of the name of a pack's file.
const Suffix = ".pack"

// blocksFor returns the number of blocks of a slot for size bytes of content.
func blocksFor(size int) int64 { return (int64(size) + HeaderSize + Block - 1) / Block }

// readHead decodes the header of the slot that begins at block first of pack id; ok is false if
// there is no such slot.
func readHead(b []byte, id uuid.UUID, first int64) (h slothead.Header, ok bool, err error) {
	h, ok, err = slothead.ReadHeader(b, id)
	if ok && h.First != first {
		return slothead.Header{}, false, nil
	}
	return h, ok, err
}
