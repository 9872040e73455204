package thumb

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"image"
	"io"
	"iter"
)

// A WebP file is RIFF: "RIFF", its size, "WEBP", and chunks. A chunk is a name, a size and a
// content padded to even length (RFC 9649).

// isWebP reports whether head, the first bytes of a file, begins a WebP file.
func isWebP(head []byte) bool {
	return len(head) >= 12 && bytes.HasPrefix(head, []byte("RIFF")) && string(head[8:12]) == "WEBP"
}

// Flags of the VP8X chunk: several pictures, alpha in a separate chunk (RFC 9649 §2.7).
const (
	animated = 1 << 1
	alpha    = 1 << 4
)

// frameHead is the length of the fields before the picture in an ANMF chunk: position, size,
// duration, flags.
const frameHead = 16

// still wraps a WebP decoder to read the first picture of an animated file, which the decoder
// rejects.
func still[T any](decode func(io.Reader) (T, error)) func(io.Reader) (T, error) {
	return func(in io.Reader) (T, error) { return decode(firstFrame(in)) }
}

// firstFrame returns in as a file with only the first picture if it is animated, and unchanged
// otherwise. Truncated or empty files are left to the decoder, which refuses them.
func firstFrame(in io.Reader) io.Reader {
	r := bufio.NewReader(in)
	head, err := r.Peek(30) // up to the end of the VP8X chunk
	if err != nil || string(head[12:16]) != "VP8X" || head[20]&animated == 0 {
		return r
	}
	_, _ = r.Discard(12) // was peeked
	for {
		head, err := r.Peek(8)
		if err != nil {
			return r
		}
		size := int64(binary.LittleEndian.Uint32(head[4:]))
		if string(head[:4]) == "ANMF" && size > frameHead {
			return onlyFrame(r, size)
		}
		if _, err := io.CopyN(io.Discard, r, 8+size+size%2); err != nil {
			return r
		}
	}
}

// onlyFrame returns a WebP file with the picture of the ANMF chunk at the start of r; size is the
// chunk's.
func onlyFrame(r *bufio.Reader, size int64) io.Reader {
	head, err := r.Peek(8 + frameHead + 4)
	if err != nil {
		return r
	}
	header := binary.LittleEndian.AppendUint32([]byte("RIFF"), uint32(22+size-frameHead))
	header = append(header, "WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00"...)
	if string(head[8+frameHead:]) == "ALPH" {
		header[20] = alpha
	}
	header = append(header, head[8+6:8+12]...) // width-1 and height-1
	_, _ = r.Discard(8 + frameHead)            // was peeked
	return io.MultiReader(bytes.NewReader(header), io.LimitReader(r, size-frameHead))
}

// chunks yields the name and the content of each chunk in rest. The last content may be truncated.
func chunks(rest []byte) iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for len(rest) >= 8 {
			size := int64(binary.LittleEndian.Uint32(rest[4:]))
			content := rest[8:min(int64(len(rest)), 8+size)]
			if !yield(string(rest[:4]), content) {
				return
			}
			rest = rest[min(int64(len(rest)), 8+size+size%2):]
		}
	}
}

// webpDetails uses the larger of the sizes in the canvas and the picture, because the decoder
// believes both. It assumes 8 bytes a pixel: a lossless picture takes 4, and a second image during
// its transforms; a lossy one takes less, alpha included.
func webpDetails(head []byte, c image.Config) details {
	d := details{width: c.Width, height: c.Height, orientation: 1}
	for name, content := range chunks(head[min(12, len(head)):]) {
		if name == "ANMF" && len(content) > frameHead {
			d.readChunks(content[frameHead:])
		}
	}
	d.readChunks(head[min(12, len(head)):])
	d.memory = 8 * pixels(d.width, d.height)
	return d
}

// readChunks raises the sizes of d to those found in the chunks of some, and sets the orientation
// if a chunk has one.
func (d *details) readChunks(some []byte) {
	for name, content := range chunks(some) {
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
}

// grow raises the width and the height to at least these.
func (d *details) grow(width, height int) {
	d.width, d.height = max(d.width, width), max(d.height, height)
}
