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

	"example.org/smartdrive/internal/base/drive"
)

const (
	quality = 80 // JPEG quality: some 30 KB at 512 pixels
	// rough is how many times the size of the thumbnail a larger image is first reduced to, by
	// fast sampling. Averaging all pixels of a photo would take ten times as long and a buffer
	// of 100 MB.
	rough = 4
	// readAhead is the size of a read: a remote store answers each read with a request.
	readAhead = 1 << 20 // bytes
)

// maxHeader bounds what may precede the size of an image, such as colour profiles and a camera's
// embedded preview.
const maxHeader = 8 << 20 // bytes

// picture makes a thumbnail, at most size pixels long, of the image that in yields in one pass. The
// image is turned by its own orientation, then by turn. It fails with NoThumbnail {too-large} if
// the decoder would use more than memory.
func picture(ctx context.Context, in io.Reader, size, turn int, memory drive.ByteSize) (t Thumbnail, err error) {
	defer func() {
		if p := recover(); p != nil { // decoders can panic on crafted files
			t, err = Thumbnail{}, refused("damaged", fmt.Errorf("the decoder panicked: %v", p))
		}
	}()
	buffer := bufio.NewReaderSize(in, readAhead)
	head, _ := buffer.Peek(headSize) // an error only means a shorter file
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

// timed makes reading fail as soon as over does, even within buffered data: a progressive JPEG
// makes the decoder pass over all pixels again for each scan, which may be only 30 bytes long.
type timed struct {
	over func() error
	in   io.Reader
}

// Read reads from in, unless the time is over: then it returns the error of over.
func (t *timed) Read(p []byte) (int, error) {
	if err := t.over(); err != nil {
		return 0, err
	}
	return t.in.Read(p)
}

// shrink scales an image down so that its longer side is at most size.
func shrink(src image.Image, size int) *image.RGBA {
	if at := src.Bounds(); max(at.Dx(), at.Dy()) > 2*rough*size {
		src = scaled(draw.ApproxBiLinear, src, rough*size)
	}
	return scaled(draw.BiLinear, src, size)
}

// scaled returns src scaled to fit size.
func scaled(by draw.Interpolator, src image.Image, size int) *image.RGBA {
	w, h := fit(src.Bounds().Dx(), src.Bounds().Dy(), size)
	dst := image.NewRGBA(image.Rect(0, 0, w, h))
	by.Scale(dst, dst.Rect, src, src.Bounds(), draw.Src, nil)
	return dst
}

// fit returns w and h scaled down to a longer side of at most size, in proportion and at least 1
// each.
func fit(w, h, size int) (int, int) {
	longer := max(w, h)
	if longer <= size {
		return w, h
	}
	return max(1, (w*size+longer/2)/longer), max(1, (h*size+longer/2)/longer)
}

// encode returns a JPEG, or a PNG if any pixel is transparent. It fails only if the encoder does.
func encode(img *image.RGBA) (Thumbnail, error) {
	var b bytes.Buffer
	if img.Opaque() {
		err := jpeg.Encode(&b, img, &jpeg.Options{Quality: quality})
		return Thumbnail{"image/jpeg", b.Bytes()}, err
	}
	err := png.Encode(&b, img)
	return Thumbnail{"image/png", b.Bytes()}, err
}
