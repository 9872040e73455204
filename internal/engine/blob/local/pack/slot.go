package pack

import (
	"github.com/google/uuid"

	"smartdrive/internal/engine/blob/slothead"
)

// Sizes in bytes.
const (
	// Block is what slots are made of: blocks of the file system, so that a slot can be freed.
	Block = 4 << 10
	// MaxContent is the largest content that is put into a pack.
	MaxContent = slothead.MaxContent
	// HeadSize is what a slot has in front of its content.
	HeadSize = slothead.HeadSize

	maxBlocks = 16 << 20 / Block // of a pack
)

// Suffix ends the name of a pack's file.
const Suffix = ".pack"

func blocksFor(size int) int64 { return (int64(size) + HeadSize + Block - 1) / Block }

// readHead reads the head of the slot that begins at that block; false: none does.
func readHead(b []byte, id uuid.UUID, first int64) (h slothead.Head, ok bool, err error) {
	h, ok, err = slothead.Read(b, id)
	if ok && h.First != first {
		return slothead.Head{}, false, nil
	}
	return h, ok, err
}
