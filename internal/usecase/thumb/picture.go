package thumb

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"

	"golang.org/x/image/draw"

	"smartdrive/internal/base/drive"
)

const (
	quality = 80 // of JPEG: at 512 pixels, some 30 KB
	// rough is how many times larger than the thumbnail an image is made by taking four pixels for
	// each, before all pixels of the rest are weighed: weighing all of a photo would take ten times
	// as long, and a buffer of 100 MB.
	rough = 4
	// readAhead is how much is read at a time: a store far away answers each read by a request.
	readAhead = 1 << 20 // bytes
)

// maxHeader is how much may stand before the size of an image: the profiles and the second picture
// of a camera.
const maxHeader = 8 << 20 // bytes

// picture makes the thumbnail of the image that in reads, once and from front to back. A decoder
// may take at most memory. The image is turned by its own orientation, and then by turn.
func picture(ctx context.Context, in io.Reader, size, turn int, memory drive.ByteSize) (t Thumbnail, err error) {
	defer func() {
		if p := recover(); p != nil { // decoders do, now and then, with files made for it
			t, err = Thumbnail{}, refused("damaged", fmt.Errorf("the decoder panicked: %v", p))
		}
	}()
	buffer := bufio.NewReaderSize(in, readAhead)
	head, _ := buffer.Peek(headSize) // a shorter file is one
	head, ahead := bytes.Clone(head), &timed{ctx.Err, buffer}
	var looked bytes.Buffer
	f, d, err := inspect(head, io.TeeReader(io.LimitReader(ahead, maxHeader), &looked))
	if err != nil {
		return Thumbnail{}, err
	}
	if d.memory > memory || d.memory <= 0 {
		return Thumbnail{}, refused("too-large", nil)
	}
	img, err := f.decode(io.MultiReader(&looked, ahead))
	if err != nil {
		return Thumbnail{}, refused(reasonOf(err), fmt.Errorf("decode a %s: %w", f.name, err))
	}
	if img.Bounds().Empty() {
		return Thumbnail{}, refused("damaged", errors.New("it has no pixels"))
	}
	return encode(upright(upright(shrink(img, size), d.orientation), turn))
}

// timed ends reading when the time is over also within what was read ahead: a progressive JPEG
// makes the decoder go over all pixels again for each scan, which may be some 30 bytes long.
type timed struct {
	over func() error
	in   io.Reader
}

func (t *timed) Read(p []byte) (int, error) {
	if err := t.over(); err != nil {
		return 0, err
	}
	return t.in.Read(p)
}

// shrink returns the image with its longer side of at most size.
func shrink(src image.Image, size int) *image.RGBA {
	if at := src.Bounds(); max(at.Dx(), at.Dy()) > 2*rough*size {
		src = scaled(draw.ApproxBiLinear, src, rough*size)
	}
	return scaled(draw.BiLinear, src, size)
}

func scaled(by draw.Interpolator, src image.Image, size int) *image.RGBA {
	w, h := fit(src.Bounds().Dx(), src.Bounds().Dy(), size)
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	by.Scale(dst, dst.Rect, src, src.Bounds(), draw.Src, nil)
	return dst
}

// fit keeps the proportions, and makes nothing larger, nor less than a pixel.
func fit(w, h, size int) (int, int) {
	longer := max(w, h)
	if longer <= size {
		return w, h
	}
	return max(1, (w*size+longer/2)/longer), max(1, (h*size+longer/2)/longer)
}

// encode writes a JPEG, or a PNG where something can be seen through.
func encode(img *image.RGBA) (Thumbnail, error) {
	var b bytes.Buffer
	if img.Opaque() {
		err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
		return Thumbnail{"image/jpeg", b.Bytes()}, err
	}
	err := png.Encode(&b, img)
	return Thumbnail{"image/png", b.Bytes()}, err
}
