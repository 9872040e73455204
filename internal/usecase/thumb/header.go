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

	"smartdrive/internal/base/drive"
)

// format is a kind of image: how a file of it begins, and how it is decoded. There is no registry:
// image.Decode would take whatever somebody else has registered.
type format struct {
	name   string
	begins func(head []byte) bool
	config func(io.Reader) (image.Config, error)
	decode func(io.Reader) (image.Image, error)
	// details are what the decoder's own look at the header does not tell.
	details func(head []byte, c image.Config) details
}

// details are what matters of an image before it is decoded.
type details struct {
	width, height int
	memory        drive.ByteSize // what the decoder takes
	orientation   int            // of EXIF, 1 to 8
}

func starts(magic string) func([]byte) bool {
	return func(head []byte) bool { return bytes.HasPrefix(head, []byte(magic)) }
}

func formats() []format {
	return []format{
		{"jpeg", starts("\xff\xd8\xff"), jpeg.DecodeConfig, decodeJPEG, jpegDetails},
		{"png", starts("\x89PNG\r\n\x1a\n"), png.DecodeConfig, png.Decode, pngDetails},
		{"gif", starts("GIF8"), gif.DecodeConfig, gif.Decode, gifDetails},
		{"bmp", starts("BM"), bmp.DecodeConfig, bmp.Decode, plainDetails},
		{"webp", isWebP, still(webp.DecodeConfig), still(webp.Decode), webpDetails},
	}
}

// headSize is how much of a file is looked at before it is decoded: where cameras put orientation
// and size, with the preview that may stand between them.
const headSize = 256 << 10 // bytes

// maxSide keeps products of sides within their type; panoramas are shorter.
const maxSide = 1 << 17 // pixels

// inspect says which format a file has and what its header says; what is none of them is refused.
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

// reasonOf tells an image that is sound, of a kind that its decoder does not know, from a damaged
// one.
func reasonOf(err error) string {
	_, jpegs := errors.AsType[jpeg.UnsupportedError](err)
	_, pngs := errors.AsType[png.UnsupportedError](err)
	if jpegs || pngs || errors.Is(err, bmp.ErrUnsupported) {
		return "type"
	}
	return "damaged"
}

func pixels(width, height int) drive.ByteSize { return drive.ByteSize(width) * drive.ByteSize(height) }

// plainDetails are those of a format whose decoder takes the pixels and nothing else.
func plainDetails(_ []byte, c image.Config) details {
	return details{width: c.Width, height: c.Height, memory: pixels(c.Width, c.Height) * bytesPerPixel(c.ColorModel), orientation: 1}
}

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

// gifDetails: the lines of an interlaced one are put in order in a copy.
func gifDetails(head []byte, c image.Config) details {
	d := plainDetails(head, c)
	d.memory *= 2
	return d
}
