package thumb_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/image/bmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/thumb"
)

var someone = drive.NewID[drive.AccountID]()

// file is a File in memory.
type file struct{ *bytes.Reader }

func (f file) Size() drive.ByteSize { return drive.ByteSize(f.Reader.Size()) }
func (file) Close() error           { return nil }

// source returns a Source of content, and a counter of its opens.
func source(content []byte) (thumb.Source, *atomic.Int64) {
	var opened atomic.Int64
	return thumb.Source{Sum: "ab12", Open: func(context.Context) (thumb.File, error) {
		opened.Add(1)
		return file{bytes.NewReader(content)}, nil
	}}, &opened
}

// make1 makes a thumbnail of content with a new Maker.
func make1(t *testing.T, content []byte, size int) (thumb.Thumbnail, error) {
	t.Helper()
	src, _ := source(content)
	return thumb.New(thumb.Options{}).Make(t.Context(), someone, src, size)
}

// decode decodes a thumbnail and checks that its type is correct.
func decode(t *testing.T, th thumb.Thumbnail) image.Image {
	t.Helper()
	read := png.Decode
	if th.Type == "image/jpeg" {
		read = jpeg.Decode
	} else if th.Type != "image/png" {
		t.Fatalf("the type is %q", th.Type)
	}
	img, err := read(bytes.NewReader(th.Body))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// corner returns a blue picture with a red top left quarter.
func corner(w, h int) *image.RGBA {
	img := image.NewRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			c := color.RGBA{B: 255, A: 255}
			if x < w/2 && y < h/2 {
				c = color.RGBA{R: 255, A: 255}
			}
			img.SetRGBA(x, y, c)
		}
	}
	return img
}

func encoded(t testing.TB, err error, b *bytes.Buffer) []byte {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func asJPEG(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	return encoded(t, jpeg.Encode(&b, img, nil), &b)
}

func asPNG(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	return encoded(t, png.Encode(&b, img), &b)
}

func asGIF(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	return encoded(t, gif.Encode(&b, img, nil), &b)
}

func asBMP(t testing.TB, img image.Image) []byte {
	var b bytes.Buffer
	return encoded(t, bmp.Encode(&b, img), &b)
}

// tinyWebP returns a picture of one pixel.
func tinyWebP(t testing.TB) []byte {
	raw, err := base64.StdEncoding.DecodeString("UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// withOrientation inserts an EXIF segment after the first marker of a JPEG.
func withOrientation(raw []byte, value uint16, order binary.AppendByteOrder, magic string) []byte {
	tiff := []byte(magic)
	tiff = order.AppendUint32(tiff, 8)
	tiff = order.AppendUint16(tiff, 2)
	for _, entry := range [][2]uint16{{0x010f, 1}, {0x0112, value}} {
		tiff = order.AppendUint16(tiff, entry[0])
		tiff = order.AppendUint16(tiff, 3)
		tiff = order.AppendUint32(tiff, 1)
		tiff = order.AppendUint16(tiff, entry[1])
		tiff = order.AppendUint16(tiff, 0)
	}
	segment := append([]byte("Exif\x00\x00"), tiff...)
	out := append([]byte{0xff, 0xd8, 0xff, 0xe1}, byte((len(segment)+2)>>8), byte(len(segment)+2))
	return append(append(out, segment...), raw[2:]...)
}

func red(c color.Color) bool {
	r, _, b, _ := c.RGBA()
	return r > 0xc000 && b < 0x4000
}

func TestEveryFormat(t *testing.T) {
	t.Parallel()
	for name, content := range map[string][]byte{
		"jpeg": asJPEG(t, corner(1200, 600)), "png": asPNG(t, corner(1200, 600)), "gif": asGIF(t, corner(1200, 600)), "bmp": asBMP(t, corner(1200, 600)),
		"large": asJPEG(t, corner(2400, 1200)),
	} {
		th, err := make1(t, content, 256)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		img := decode(t, th)
		if got := img.Bounds().Size(); got != (image.Point{X: 256, Y: 128}) || th.Type != "image/jpeg" {
			t.Errorf("%s becomes %v of %s", name, got, th.Type)
		}
		if !red(img.At(20, 20)) || red(img.At(200, 20)) || red(img.At(20, 100)) {
			t.Errorf("%s is another picture", name)
		}
	}
	if th, err := make1(t, tinyWebP(t), 512); err != nil || decode(t, th).Bounds().Dx() != 1 {
		t.Errorf("webp: %v", err)
	}
	if th, err := make1(t, animatedWebP(t), 512); err != nil || decode(t, th).Bounds().Size() != (image.Point{X: 1, Y: 1}) {
		t.Errorf("an animated webp: %v", err)
	}
	if th, err := make1(t, asPNG(t, corner(30, 20)), 512); err != nil || decode(t, th).Bounds().Size() != (image.Point{X: 30, Y: 20}) {
		t.Errorf("a small one is made larger: %v", err)
	}
	if th, err := make1(t, asPNG(t, corner(3000, 2)), 256); err != nil || decode(t, th).Bounds().Size() != (image.Point{X: 256, Y: 1}) {
		t.Errorf("a line: %v", err)
	}
}

func TestTransparencyIsKept(t *testing.T) {
	t.Parallel()
	img := corner(600, 600)
	img.SetRGBA(599, 599, color.RGBA{})
	for x := range 300 {
		img.SetRGBA(x, 500, color.RGBA{})
	}
	th, err := make1(t, asPNG(t, img), 256)
	if err != nil || th.Type != "image/png" {
		t.Fatalf("%s, %v", th.Type, err)
	}
}

func TestPhotosAreUpright(t *testing.T) {
	t.Parallel()
	// Position of the red quarter in the upright picture, which is stored at the top left: x
	// and y in halves of the picture.
	where := map[uint16][2]int{1: {0, 0}, 2: {1, 0}, 3: {1, 1}, 4: {0, 1}, 5: {0, 0}, 6: {1, 0}, 7: {1, 1}, 8: {0, 1}, 9: {0, 0}, 0: {0, 0}}
	for value, at := range where {
		for magic, order := range map[string]binary.AppendByteOrder{"II*\x00": binary.LittleEndian, "MM\x00*": binary.BigEndian} {
			th, err := make1(t, withOrientation(asJPEG(t, corner(300, 150)), value, order, magic), 256)
			if err != nil {
				t.Fatal(err)
			}
			img := decode(t, th)
			w, h := img.Bounds().Dx(), img.Bounds().Dy()
			if lying := value < 5 || value > 8; lying != (w > h) {
				t.Errorf("orientation %d gives %d by %d", value, w, h)
			}
			for y := range 2 {
				for x := range 2 {
					if got := red(img.At(w/4+x*w/2, h/4+y*h/2)); got != (at == [2]int{x, y}) {
						t.Errorf("orientation %d: the quarter %d, %d is red: %v", value, x, y, got)
					}
				}
			}
		}
	}
}

// bigPNG has a header that claims 60,000 by 60,000 pixels. The other headers claim their maximum.
func bigPNG(t *testing.T) []byte {
	raw := asPNG(t, corner(8, 8))
	binary.BigEndian.PutUint32(raw[16:], 60000)
	binary.BigEndian.PutUint32(raw[20:], 60000)
	binary.BigEndian.PutUint32(raw[29:], crc32.ChecksumIEEE(raw[12:29]))
	return raw
}

func bigJPEG(t *testing.T) []byte {
	raw := asJPEG(t, corner(8, 8))
	at := bytes.Index(raw, []byte{0xff, 0xc0})
	copy(raw[at+5:], []byte{0xff, 0xff, 0xff, 0xff})
	return raw
}

func bigGIF(t *testing.T) []byte {
	raw := asGIF(t, corner(8, 8))
	copy(raw[6:], []byte{0xff, 0xff, 0xff, 0xff})
	return raw
}

func bigBMP(t *testing.T) []byte {
	raw := asBMP(t, corner(8, 8))
	binary.LittleEndian.PutUint32(raw[18:], 1<<30)
	binary.LittleEndian.PutUint32(raw[22:], 1<<30)
	return raw
}

// rleBMP has a header that claims compressed pixels (BI_RLE8).
func rleBMP(t *testing.T) []byte {
	raw := asBMP(t, corner(8, 8))
	binary.LittleEndian.PutUint32(raw[30:], 1)
	return raw
}

// animatedWebP has two frames, both with the picture of tinyWebP.
func animatedWebP(t *testing.T) []byte {
	raw := tinyWebP(t)
	picture := raw[12:]
	out := append(bytes.Clone(raw[:12]), "VP8X\x0a\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00ANIM\x06\x00\x00\x00\x00\x00\x00\x00\x00\x00"...)
	for range 2 {
		out = binary.LittleEndian.AppendUint32(append(out, "ANMF"...), uint32(16+len(picture)))
		out = append(append(out, make([]byte, 16)...), picture...) // frame at 0, 0, of 1 by 1 pixel
	}
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

// falseWebP has a canvas of one pixel and claims a picture of 16,383 by 16,383 in it.
func falseWebP(t *testing.T) []byte {
	raw := tinyWebP(t)
	vp8x := append([]byte("VP8X\x0a\x00\x00\x00"), make([]byte, 10)...)
	picture := bytes.Clone(raw[12:])
	binary.LittleEndian.PutUint16(picture[8+6:], 16383)
	binary.LittleEndian.PutUint16(picture[8+8:], 16383)
	out := append(append(bytes.Clone(raw[:12]), vp8x...), picture...)
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	return out
}

func TestHostileImagesAreRefused(t *testing.T) {
	t.Parallel()
	cut := asPNG(t, corner(500, 500))
	for name, c := range map[string]struct {
		content []byte
		reason  string
	}{
		"a PNG of 3.6 Gpixel":       {bigPNG(t), "too-large"},
		"a BMP in run lengths":      {rleBMP(t), "type"},
		"a JPEG of 4 Gpixel":        {bigJPEG(t), "too-large"},
		"a GIF of 4 Gpixel":         {bigGIF(t), "too-large"},
		"a BMP of 10^18 pixels":     {bigBMP(t), "too-large"},
		"a WebP in a small canvas":  {falseWebP(t), "too-large"},
		"half a PNG":                {cut[:len(cut)/2], "damaged"},
		"the beginning of a JPEG":   {[]byte("\xff\xd8\xff\xe0"), "damaged"},
		"segments without an end":   {append([]byte("\xff\xd8"), bytes.Repeat([]byte{0xff}, 100000)...), "damaged"},
		"nothing":                   {nil, "type"},
		"a text":                    {[]byte("<svg onload=alert(1)>"), "type"},
		"a page that claims a name": {[]byte("GIF7<script>"), "type"},
	} {
		th, err := make1(t, c.content, 256)
		var e *drive.Error
		if !errors.As(err, &e) || e.Kind != drive.NoThumbnail || e.Args["reason"] != c.reason || th.Body != nil {
			t.Errorf("%s: %v, want %s", name, err, c.reason)
		}
	}
	src, _ := source(asJPEG(t, corner(100, 100)))
	if _, err := thumb.New(thumb.Options{MaxFile: 100}).Make(t.Context(), someone, src, 256); !drive.IsKind(err, drive.NoThumbnail) {
		t.Errorf("a file beyond the limit: %v", err)
	}
}

func TestThumbnailIsCached(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "thumbs")
	m := thumb.New(thumb.Options{Dir: dir})
	src, opened := source(asJPEG(t, corner(400, 400)))
	first, err := m.Make(t.Context(), someone, src, 256)
	if err != nil {
		t.Fatal(err)
	}
	again, err := thumb.New(thumb.Options{Dir: dir}).Make(t.Context(), someone, src, 256) // also after a restart
	if err != nil || !bytes.Equal(first.Body, again.Body) || again.Type != first.Type || opened.Load() != 1 {
		t.Errorf("again: %d bytes of %s, opened %d times, %v", len(again.Body), again.Type, opened.Load(), err)
	}
	kept := filepath.Join(dir, "ab", "ab12-"+thumb.Format+"-256")
	raw, err := os.ReadFile(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, raw[:len(raw)/2], 0o600); err != nil { // as after a power cut
		t.Fatal(err)
	}
	if torn, err := m.Make(t.Context(), someone, src, 256); err != nil || !bytes.Equal(first.Body, torn.Body) || opened.Load() != 2 {
		t.Errorf("after a torn file: %v, opened %d times", err, opened.Load())
	}
	bad, refusals := source([]byte("no image"))
	bad.Sum = "cd34"
	for range 2 {
		if _, err := m.Make(t.Context(), someone, bad, 256); !drive.IsKind(err, drive.NoThumbnail) {
			t.Error(err)
		}
	}
	if refusals.Load() != 1 {
		t.Errorf("a refusal was found out %d times", refusals.Load())
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	m := thumb.New(thumb.Options{Dir: dir, MaxCache: 20 * drive.KiB, Now: func() time.Time { return now }})
	content := asPNG(t, corner(64, 64))
	for i := range 100 {
		src, _ := source(content)
		src.Sum = string([]byte{'a' + byte(i%16), 'a' + byte(i/16)}) + "00"
		if _, err := m.Make(t.Context(), someone, src, 256); err != nil {
			t.Fatal(err)
		}
	}
	total := int64(0)
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	for _, f := range files {
		if info, err := os.Stat(f); err == nil {
			total += info.Size()
		}
	}
	if err != nil || total > 20<<10 || len(files) < 5 {
		t.Errorf("%d files take %d bytes, %v", len(files), total, err)
	}
}

func TestUnusedThumbnailsAreEvicted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Now()
	m := thumb.New(thumb.Options{Dir: dir, Now: func() time.Time { return now }})
	show := func(sum string) {
		t.Helper()
		src, _ := source(asPNG(t, corner(8, 8)))
		src.Sum = sum
		if _, err := m.Make(t.Context(), someone, src, 256); err != nil {
			t.Fatal(err)
		}
	}
	show("aa1")
	show("bb1")
	if err := os.WriteFile(filepath.Join(dir, "aa", "tmp-1"), []byte("of a crash"), 0o600); err != nil {
		t.Fatal(err)
	}
	now = now.Add(20 * 24 * time.Hour)
	show("bb1")
	now = now.Add(20 * 24 * time.Hour)
	show("cc1")
	left, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	for i, f := range left {
		left[i] = filepath.Base(f)[:3]
	}
	if diff := cmp.Diff([]string{"bb1", "cc1"}, left); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestConcurrentRequestsShareOneThumbnail(t *testing.T) {
	t.Parallel()
	content := asJPEG(t, corner(40, 40))
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var opened atomic.Int64
		src := thumb.Source{Sum: "ab12", Open: func(context.Context) (thumb.File, error) {
			opened.Add(1)
			<-release
			return file{bytes.NewReader(content)}, nil
		}}
		m := thumb.New(thumb.Options{Workers: 1})
		gone, leave := context.WithCancel(t.Context())
		results := make(chan error)
		for i := range 8 {
			ctx := t.Context()
			if i == 0 {
				ctx = gone
			}
			go func() {
				_, err := m.Make(ctx, someone, src, 256)
				results <- err
			}()
			synctest.Wait()
		}
		leave() // the first caller
		if err := <-results; !errors.Is(err, context.Canceled) {
			t.Errorf("the one who left got %v", err)
		}
		close(release)
		for range 7 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
		if opened.Load() != 1 {
			t.Errorf("it was opened %d times", opened.Load())
		}
	})
}

func TestNoImageTakesForever(t *testing.T) {
	t.Parallel()
	content := asJPEG(t, corner(40, 40))
	synctest.Test(t, func(t *testing.T) {
		m := thumb.New(thumb.Options{Workers: 1, Wait: 5 * time.Second, Time: 20 * time.Second})
		slow := thumb.Source{Sum: "ab12", Open: func(ctx context.Context) (thumb.File, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		slowly := make(chan error, 1)
		go func() {
			_, err := m.Make(t.Context(), someone, slow, 256)
			slowly <- err
		}()
		synctest.Wait()
		src, _ := source(content)
		src.Sum = "cd34"
		if _, err := m.Make(t.Context(), someone, src, 256); !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("while the worker is busy: %v", err)
		}
		if err := <-slowly; !drive.IsKind(err, drive.Unavailable) {
			t.Errorf("the slow one: %v", err)
		}
		if _, err := m.Make(t.Context(), someone, src, 256); err != nil {
			t.Errorf("afterwards: %v", err)
		}
	})
}

// late is an image whose first and only read takes all the allowed time.
type late struct {
	file
	ctx   context.Context
	reads *atomic.Int64
}

func (l late) ReadAt(p []byte, off int64) (int, error) {
	if l.reads.Add(1) == 1 {
		<-l.ctx.Done()
	}
	return l.file.ReadAt(p, off)
}

// TestTimeLimitEndsBufferedDecoder: the time limit also ends a decoder that only needs buffered
// data.
func TestTimeLimitEndsBufferedDecoder(t *testing.T) {
	t.Parallel()
	content := asPNG(t, corner(40, 40))
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		src := thumb.Source{Sum: "ab12", Open: func(ctx context.Context) (thumb.File, error) {
			return late{file{bytes.NewReader(content)}, ctx, &reads}, nil
		}}
		if _, err := thumb.New(thumb.Options{}).Make(t.Context(), someone, src, 256); !drive.IsKind(err, drive.Unavailable) || reads.Load() != 1 {
			t.Errorf("after %d reads: %v", reads.Load(), err)
		}
	})
}

// TestFailedReadIsNotCached: a read error of the store is not a property of the file, so it is not
// cached.
func TestFailedReadIsNotCached(t *testing.T) {
	t.Parallel()
	m := thumb.New(thumb.Options{Dir: t.TempDir()})
	content, broken := asJPEG(t, corner(40, 40)), errors.New("the store is away")
	fail := true
	src := thumb.Source{Sum: "ab12", Open: func(context.Context) (thumb.File, error) {
		if fail {
			return failing{file{bytes.NewReader(content)}, broken}, nil
		}
		return file{bytes.NewReader(content)}, nil
	}}
	if _, err := m.Make(t.Context(), someone, src, 256); !errors.Is(err, broken) || drive.IsKind(err, drive.NoThumbnail) {
		t.Errorf("while the store is away: %v", err)
	}
	fail = false
	if _, err := m.Make(t.Context(), someone, src, 256); err != nil {
		t.Errorf("the store is back: %v", err)
	}
}

type failing struct {
	file
	err error
}

func (f failing) ReadAt([]byte, int64) (int, error) { return 0, f.err }

// FuzzMake feeds files to all decoders. Each file must give a small picture or a refusal, without a
// large allocation.
func FuzzMake(f *testing.F) {
	f.Add(asJPEG(f, corner(20, 10)))
	f.Add(withOrientation(asJPEG(f, corner(20, 10)), 6, binary.BigEndian, "MM\x00*"))
	f.Add(asPNG(f, corner(20, 10)))
	f.Add(asGIF(f, corner(20, 10)))
	f.Add(asBMP(f, corner(20, 10)))
	f.Add(tinyWebP(f))
	m := thumb.New(thumb.Options{MaxMemory: 4 * drive.MiB})
	f.Fuzz(func(t *testing.T, content []byte) {
		src, _ := source(content)
		th, err := m.Make(t.Context(), someone, src, 256)
		if err != nil {
			if !drive.IsKind(err, drive.NoThumbnail) {
				t.Fatal(err)
			}
			return
		}
		if size := decode(t, th).Bounds().Size(); size.X > 256 || size.Y > 256 || size.X < 1 || size.Y < 1 {
			t.Fatalf("it is %v", size)
		}
	})
}

// BenchmarkMake measures a photo of 24 million pixels.
func BenchmarkMake(b *testing.B) {
	src, _ := source(asJPEG(b, corner(6000, 4000)))
	m := thumb.New(thumb.Options{})
	for b.Loop() {
		if _, err := m.Make(b.Context(), someone, src, 512); err != nil {
			b.Fatal(err)
		}
	}
}
