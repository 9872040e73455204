package thumb

import (
	"bytes"
	"encoding/binary"
	"image"
	"iter"
)

// A WebP file is RIFF: "RIFF", its size, "WEBP", and chunks of a name, a size and a content of an
// even length (RFC 9649).

func isWebP(head []byte) bool {
	return len(head) >= 12 && bytes.HasPrefix(head, []byte("RIFF")) && string(head[8:12]) == "WEBP"
}

func chunks(head []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for rest := head[min(12, len(head)):]; len(rest) >= 8; {
			size := int64(binary.LittleEndian.Uint32(rest[4:]))
			content := rest[8:min(int64(len(rest)), 8+size)]
			if !yield(string(rest[:4]), content) {
				return
			}
			rest = rest[min(int64(len(rest)), 8+size+size%2):]
		}
	}
}

// webpDetails: the canvas and the picture in it say their size each, and the decoder believes both;
// so the larger one counts. A lossless one takes 4 bytes a pixel, and a second image while it is
// transformed; a lossy one less than that, its alpha included.
func webpDetails(head []byte, c image.Config) details {
	d := details{width: c.Width, height: c.Height, orientation: 1}
	for name, content := range chunks(head) {
		switch name {
		case "VP8 ":
			if len(content) >= 10 { // RFC 6386 §9.1: tag, start code, width, height
				d.grow(int(binary.LittleEndian.Uint16(content[6:])&0x3fff), int(binary.LittleEndian.Uint16(content[8:])&0x3fff))
			}
		case "VP8L":
			if len(content) >= 5 { // RFC 9649 §3.4: signature, then 14 bits each of width-1 and height-1
				bits := binary.LittleEndian.Uint32(content[1:])
				d.grow(int(bits&0x3fff)+1, int(bits>>14&0x3fff)+1)
			}
		case "EXIF":
			d.orientation = orientation(bytes.TrimPrefix(content, []byte("Exif\x00\x00")))
		}
	}
	d.memory = 8 * pixels(d.width, d.height)
	return d
}

func (d *details) grow(width, height int) {
	d.width, d.height = max(d.width, width), max(d.height, height)
}
