package thumb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"image"
	"image/jpeg"
	"io"
	"iter"

	"example.org/smartdrive/internal/base/drive"
)

// Markers of JPEG segments (ITU T.81 annex B).
const (
	markerSOF0  = 0xc0 // frame header, baseline
	markerSOF2  = 0xc2 // frame header, progressive
	markerSOS   = 0xda // start of scan: the picture follows
	markerAPP1  = 0xe1 // EXIF
	markerAPP14 = 0xee // Adobe: colour transform
)

// segments yields the marker and the content of each segment before the picture that lies
// completely within head.
func segments(head []byte) iter.Seq2[byte, []byte] {
	return func(yield func(byte, []byte) bool) {
		rest := head[min(2, len(head)):] // after SOI
		for len(rest) >= 4 && rest[0] == 0xff {
			if rest[1] == 0xff { // fill bytes
				rest = rest[1:]
				continue
			}
			size := 2 + int(binary.BigEndian.Uint16(rest[2:]))
			if size < 4 || size > len(rest) || rest[1] == markerSOS || !yield(rest[1], rest[4:size]) {
				return
			}
			rest = rest[size:]
		}
	}
}

// jpegDetails estimates the decoder's memory. It holds one byte for each sample of each component,
// and 4 more for the coefficients of a progressive image. Colours other than YCbCr are converted to
// an image of 4 bytes a pixel. If the frame header is beyond head, the worst case of 24 is assumed.
func jpegDetails(head []byte, c image.Config) details {
	d := details{width: c.Width, height: c.Height, orientation: 1}
	bytesPer, seen, adobe := 24.0, false, false
	for marker, segment := range segments(head) {
		switch {
		case marker == markerAPP1 && bytes.HasPrefix(segment, []byte("Exif\x00\x00")):
			d.orientation = orientation(segment[6:])
		case marker == markerAPP14 && bytes.HasPrefix(segment, []byte("Adobe")) && len(segment) >= 12:
			adobe = segment[11] == 0
		case marker >= markerSOF0 && marker <= markerSOF2 && !seen:
			seen, bytesPer = true, frame(segment).bytesPerPixel(marker == markerSOF2)
		}
	}
	if seen && adobe {
		bytesPer += 4
	}
	d.memory = drive.ByteSize(float64(pixels(c.Width, c.Height)) * bytesPer)
	return d
}

// frame is the content of a frame header (SOF): precision, height, width, number of components, and
// for each its id, its sampling factors, its table.
type frame []byte

// bytesPerPixel returns the decoder's memory per pixel, or 24, the worst case, for a damaged
// header.
func (f frame) bytesPerPixel(progressive bool) float64 {
	if len(f) < 6 || len(f) < 6+3*int(f[5]) || f[5] == 0 {
		return 24
	}
	components := f[6 : 6+3*int(f[5])]
	sum, maxH, maxV := 0, 1, 1
	for i := 0; i < len(components); i += 3 {
		h, v := int(components[i+1]>>4), int(components[i+1]&15)
		sum, maxH, maxV = sum+h*v, max(maxH, h), max(maxV, v)
	}
	samples := float64(sum) / float64(maxH*maxV)
	if f[5] == 1 {
		samples = 1 // sampling factors of a single component are ignored
	}
	if progressive {
		samples *= 5
	}
	if f[5] == 4 || components[0] == 'R' {
		samples += 4
	}
	return samples
}

// maxScans limits how often the decoder passes over all pixels: once for each scan, which may be
// only 30 bytes long. Cameras and programs write at most some 20 scans.
const maxScans = 100

// errScans reports a JPEG with more than maxScans scans.
var errScans = errors.New("too many scans")

// decodeJPEG decodes a JPEG. It fails with errScans if the file has more than maxScans scans, which
// would take too long.
func decodeJPEG(r io.Reader) (image.Image, error) { return jpeg.Decode(&scanLimit{in: r}) }

// scanLimit fails with errScans after maxScans scans.
type scanLimit struct {
	in    io.Reader
	scans int
	last  uint64 // the last 8 bytes read
}

// Read reads from in and counts the scans that begin. Above maxScans it returns errScans.
func (l *scanLimit) Read(p []byte) (int, error) {
	n, err := l.in.Read(p)
	for _, b := range p[:n] {
		if l.last = l.last<<8 | uint64(b); beginsScan(l.last) {
			l.scans++
		}
	}
	if l.scans > maxScans {
		return 0, errScans
	}
	return n, err
}

// beginsScan reports whether last ends with a start of scan: the marker, a length of two bytes and
// the number of components, which the length must match. Within picture data a zero follows each
// 0xff, and a colour profile is unlikely to match.
func beginsScan(last uint64) bool {
	components, length := last&0xff, last>>8&0xffff
	return last>>24&0xffff == 0xff00|markerSOS && 1 <= components && components <= 4 && length == 6+2*components
}
