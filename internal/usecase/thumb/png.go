package thumb

import (
	"encoding/binary"
	"image"
	"iter"

	"example.org/smartdrive/internal/base/drive"
)

// A PNG file is a signature of 8 bytes, and chunks of a length, a type, a content and a CRC (W3C
// PNG §5.3).

// Offsets in a PNG file. IHDR is the first chunk, and its content is 13 bytes long.
const (
	pngDepth     = 24 // bit depth
	pngColour    = 25 // colour type
	pngInterlace = 28 // interlace method
	pngChunks    = 33 // the chunks after IHDR
)

// pngTypes yields the type of each chunk after IHDR that begins within head.
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

// pngDetails estimates the decoder's memory. A chunk tRNS makes the decoder add alpha to grey and
// RGB images: 4 or 8 bytes a pixel. tRNS precedes the first IDAT; if IDAT is beyond head, tRNS is
// assumed. An interlaced image needs twice the memory, because its passes are decoded separately.
func pngDetails(head []byte, c image.Config) details {
	d := plainDetails(head, c)
	if len(head) < pngChunks {
		return d
	}
	const grey, colours = 0, 2 // colour types 4 and 6 already have alpha, 3 has it in the palette
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

// mayHaveAlpha reports whether a chunk tRNS precedes IDAT, or may do so beyond head.
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
