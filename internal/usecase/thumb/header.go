package thumb

import (
	"bytes"
	"errors"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/bmp"
	"golang.org/x/image/webp"

	"example.org/smartdrive/internal/base/drive"
)

// format is a supported image format. The registry of package image is not used, because any import
// can add decoders to it.
type format struct {
	name string
	// begins reports whether a file with these first bytes has the format.
	begins func(head []byte) bool
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	// details returns what config does not: the decoder's memory and the orientation.
	details func(head []byte, c image.Config) details
}

// details describe an image before it is decoded.
type details struct {
	width, height int
	memory        drive.ByteSize // that the decoder will use
	orientation   int            // from EXIF, 1 to 8
}

// starts returns a test for files that begin with magic.
func starts(magic string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
}

// formats returns the formats that this process decodes, each with its test, decoder and memory
// estimate.
func formats() []format {
	return []format{
		{"jpeg", starts("\xff\xd8\xff"), jpeg.DecodeConfig, decodeJPEG, jpegDetails},
		{"png", starts("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode, pngDetails},
		{"gif", starts("GIF8"), gif.DecodeConfig, gif.Decode, gifDetails},
		{"bmp", starts("BM"), bmp.DecodeConfig, bmp.Decode, plainDetails},
		{"webp", isWebP, still(webp.DecodeConfig), still(webp.Decode), webpDetails},
	}
}

// headSize is how much of a file is read before decoding. Cameras store orientation and size within
// it, even after an embedded preview.
const headSize = 256 << 10 // bytes

// maxSide bounds width and height, so that their products do not overflow; panoramas are smaller.
const maxSide = 1 << 17 // pixels

// inspect returns the format of an image and the details in its header. whole reads the file from
// its beginning. It fails with NoThumbnail: type if no format matches, too-large beyond maxSide,
// damaged.
func inspect(head []byte, whole io.Reader) (format, details, error) {
	for _, f := range formats() {
		if !f.begins(head) {
			continue
		}
		c, err := f.config(whole)
		if err != nil {
			return format{}, details{}, refused(reasonOf(err), err)
		}
		d := f.details(head, c)
		switch {
		case d.width <= 0 || d.height <= 0:
			return format{}, details{}, refused("damaged", nil)
		case d.width > maxSide || d.height > maxSide:
			return format{}, details{}, refused("too-large", nil)
		}
		return f, d, nil
	}
	return format{}, details{}, refused("type", nil)
}

// reasonOf returns "type" for a valid image of a variant that the decoder does not support, else
// "damaged".
func reasonOf(err error) string {
	_, jpegs := errors.AsType[jpeg.UnsupportedError](err)
	_, pngs := errors.AsType[png.UnsupportedError](err)
	if jpegs || pngs || errors.Is(err, bmp.ErrUnsupported) {
		return "type"
	}
	return "damaged"
}

// pixels returns width times height, without overflow.
func pixels(width, height int) drive.ByteSize { return drive.ByteSize(width) * drive.ByteSize(height) }

// plainDetails are for decoders that use memory for the decoded pixels only.
func plainDetails(_ []byte, c image.Config) details {
	return details{width: c.Width, height: c.Height, memory: pixels(c.Width, c.Height) * bytesPerPixel(c.ColorModel), orientation: 1}
}

// bytesPerPixel returns the memory that a decoded pixel of a color model takes; 4 for unknown
// models.
func bytesPerPixel(m color.Model) drive.ByteSize {
	switch m {
	case color.GrayModel:
		return 1
	case color.Gray16Model:
		return 2
	case color.RGBA64Model, color.NRGBA64Model:
		return 8
	}
	if _, ok := m.(color.Palette); ok {
		return 1
	}
	return 4
}

// gifDetails doubles the memory: the decoder copies an interlaced image to reorder its lines.
func gifDetails(head []byte, c image.Config) details {
	d := plainDetails(head, c)
	d.memory *= 2
	return d
}
