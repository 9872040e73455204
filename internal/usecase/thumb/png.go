package thumb

import (
	"encoding/binary"
	"image"
	"iter"

	"smartdrive/internal/base/drive"
)

// A PNG file is a signature of 8 bytes, and chunks of a length, a type, a content and a CRC (W3C
// PNG §5.3).

// Where the bytes of a PNG lie that say how a pixel is stored: IHDR is the first chunk, and 13
// bytes long.
const (
	pngDepth     = 24
	pngColour    = 25
	pngInterlace = 28
	pngChunks    = 33 // after IHDR
)

// pngTypes yields the type of each chunk after the header as far as the head goes.
func pngTypes(head []byte) iter.Seq[string] {
	return func(yield func(string) bool) {
		for rest := head[min(pngChunks, len(head)):]; len(rest) >= 8; {
			if !yield(string(rest[4:8])) {
				return
			}
			rest = rest[min(int64(len(rest)), 12+int64(binary.BigEndian.Uint32(rest))):]
		}
	}
}

// pngDetails: a chunk tRNS makes the decoder give grey and plain colours an alpha, which is 4 or 8
// bytes a pixel instead of 1 or 2. It stands before the first IDAT; where that is out of sight
// there may be one. The passes of an interlaced image are images of their own beside the whole.
func pngDetails(head []byte, c image.Config) details {
	d := plainDetails(head, c)
	if len(head) < pngChunks {
		return d
	}
	const grey, colours = 0, 2 // with 4 and 6 the alpha is there already, with 3 it is in the palette
	if kind := head[pngColour]; (kind == grey || kind == colours) && mayHaveAlpha(head) {
		perPixel := drive.ByteSize(4)
		if head[pngDepth] == 16 {
			perPixel = 8
		}
		d.memory = pixels(c.Width, c.Height) * perPixel
	}
	if head[pngInterlace] != 0 {
		d.memory *= 2
	}
	return d
}

func mayHaveAlpha(head []byte) bool {
	for name := range pngTypes(head) {
		switch name {
		case "tRNS":
			return true
		case "IDAT":
			return false
		}
	}
	return true
}
