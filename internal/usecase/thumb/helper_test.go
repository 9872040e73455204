package thumb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"image"
	"image/png"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/image/tiff"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/thumb"
)

// probe tries everything that a helper must not be able to do. It writes a picture whose width is
// 10 pixels plus the number of successful attempts.
func probe(args []string) int {
	secret, address := args[0], args[1]
	could := 10
	if _, err := os.ReadFile(secret); err == nil {
		could++
	}
	if _, err := os.ReadDir("/etc"); err == nil {
		could++
	}
	if err := os.WriteFile(secret+".new", nil, 0o600); err == nil {
		could++
	}
	if c, err := net.Dial("tcp", address); err == nil {
		_ = c.Close() // connecting is what counts
		could++
	}
	if p, err := os.FindProcess(os.Getppid()); err == nil && p.Signal(syscall.Signal(0)) == nil {
		could++
	}
	f, err := os.Create("tmp-out.png")
	if err != nil {
		return 1
	}
	if png.Encode(f, image.NewGray(image.Rect(0, 0, could, 10))) != nil || f.Close() != nil {
		return 1
	}
	return 0
}

// only returns a lookup that finds one program.
func only(name, path string) func(string) (string, error) {
	return func(asked string) (string, error) {
		if asked == name {
			return path, nil
		}
		return "", fs.ErrNotExist
	}
}

// TestAHelperIsConfined: a helper reads its file and writes a picture. It can read or write nothing
// else, reach no network and no other process, and leaves no files behind.
func TestAHelperIsConfined(t *testing.T) {
	t.Parallel()
	withoutRaceDetector(t)
	self := child(t, "decode")
	home, dir := t.TempDir(), t.TempDir()
	secret := filepath.Join(home, "secret")
	if err := os.WriteFile(secret, []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody is served
	script := filepath.Join(dir, "pdftoppm")
	// The program is a script, as some helpers are. Programs that it runs are confined as well.
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\ntest -s tmp-in || exit 1\nexec %s helper %s %s\n", self[0], secret, l.Addr()), 0o700); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, filepath.Base(self[0]))
	if err := os.Link(self[0], program); err != nil { // Landlock allows files beside the helper
		t.Skipf("the test program cannot be linked: %v", err)
	}
	raw, err := os.ReadFile(script)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(script, bytes.Replace(raw, []byte(self[0]), []byte(program), 1), 0o700); err != nil {
		t.Fatal(err)
	}
	cache := t.TempDir()
	m := thumb.New(thumb.Options{Child: self, Dir: cache, Helpers: only("pdftoppm", script), HelperMemory: drive.GiB})
	if len(m.Kinds()) == 0 {
		t.Skip("this system cannot take files from a process")
	}
	src, _ := source([]byte("%PDF-1.7 the document"))
	got, err := m.Make(t.Context(), someone, src, 256)
	if err != nil {
		t.Fatal(err)
	}
	if w := decode(t, got).Bounds().Dx(); w != 10 {
		t.Errorf("the helper could do %d things that it must not", w-10)
	}
	left, err := filepath.Glob(filepath.Join(cache, "tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("it has left %v %v", left, err)
	}
	if m.Counters.Helped.Load() != 1 {
		t.Errorf("helpers were started %d times", m.Counters.Helped.Load())
	}
}

// TestHelpersComeLater: without a helper a file is refused with reason type. Once a helper is
// installed, that refusal no longer applies.
func TestHelpersComeLater(t *testing.T) {
	t.Parallel()
	withoutRaceDetector(t)
	dir := t.TempDir()
	page := onePage("Hello")
	src, _ := source(page)
	if _, err := thumb.New(thumb.Options{Child: child(t, "decode"), Dir: dir}).Make(t.Context(), someone, src, 256); reason(err) != "type" {
		t.Fatalf("without a helper: %v", err)
	}
	m := helped(t, dir, "pdf")
	if _, err := m.Make(t.Context(), someone, src, 256); err != nil {
		t.Errorf("with a helper: %v", err)
	}
}

func withoutRaceDetector(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("the race detector takes more memory than a child may have")
	}
}

// helped returns a Maker with the helpers of this machine. It skips the test if there is none for
// kind.
func helped(t *testing.T, dir, kind string) *thumb.Maker {
	t.Helper()
	m := thumb.New(thumb.Options{Child: child(t, "decode"), Dir: dir, Helpers: exec.LookPath})
	if !slices.Contains(m.Kinds(), kind) {
		t.Skipf("there is no helper for %s, or this system cannot confine it", kind)
	}
	withoutRaceDetector(t)
	return m
}

// TestRealHelpers: installed programs render real files. Damaged files are refused, and the refusal
// is cached.
func TestRealHelpers(t *testing.T) {
	t.Parallel()
	var scan bytes.Buffer
	if err := tiff.Encode(&scan, corner(600, 300), nil); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		kind    string
		content func(t *testing.T) []byte
		w, h    int
	}{
		{"pdf", func(*testing.T) []byte { return onePage("Hello") }, 181, 256},
		{"tiff", func(*testing.T) []byte { return scan.Bytes() }, 256, 128},
		{"video", film("mp4"), 256, 144},
		{"video", film("mkv"), 256, 144},
		{"video", film("avi"), 256, 144},
		{"heic", func(t *testing.T) []byte { return heic(t, asPNG(t, corner(64, 64))) }, 64, 64},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			m := helped(t, t.TempDir(), tc.kind)
			content := tc.content(t)
			src, _ := source(content)
			got, err := m.Make(t.Context(), someone, src, 256)
			if err != nil {
				t.Fatal(err)
			}
			if b := decode(t, got).Bounds(); b.Dx() != tc.w || b.Dy() != tc.h {
				t.Errorf("the picture is %v", b)
			}
			damaged := slices.Clone(content[:min(len(content), 200)])
			broken := thumb.Source{Sum: "cd34", Open: func(context.Context) (thumb.File, error) { return file{bytes.NewReader(damaged)}, nil }}
			for range 2 {
				if _, err := m.Make(t.Context(), someone, broken, 256); reason(err) != "damaged" {
					t.Errorf("a damaged one: %v", err)
				}
			}
			if n := m.Counters.Helped.Load(); n != 2 {
				t.Errorf("helpers were started %d times", n)
			}
		})
	}
}

// TestLargeVideoNeedsOnlyItsEnds: of a large film, the copied beginning and end suffice.
func TestLargeVideoNeedsOnlyItsEnds(t *testing.T) {
	t.Parallel()
	m := helped(t, t.TempDir(), "video")
	content := film("mp4")(t)
	// A free box (ISO 14496-12, 8.1.2) of 300 MiB gives it a realistic size.
	const hole = 300 << 20
	large := binary.BigEndian.AppendUint32(slices.Clone(content), hole)
	large = append(large, "free"...)
	src := thumb.Source{Sum: "ab12", Open: func(context.Context) (thumb.File, error) { return sparse{large, int64(len(large)) + hole - 8}, nil }}
	got, err := m.Make(t.Context(), someone, src, 256)
	if err != nil {
		t.Fatal(err)
	}
	if b := decode(t, got).Bounds(); b.Dx() != 256 {
		t.Errorf("the picture is %v", b)
	}
}

// sparse is a file with zeros after its head.
type sparse struct {
	head []byte
	size int64
}

func (s sparse) ReadAt(p []byte, at int64) (int, error) {
	clear(p)
	if at < int64(len(s.head)) {
		copy(p, s.head[at:])
	}
	return len(p), nil
}

func (s sparse) Size() drive.ByteSize { return drive.ByteSize(s.size) }
func (sparse) Close() error           { return nil }

// film creates a film of one second with ffmpeg.
func film(format string) func(t *testing.T) []byte {
	return func(t *testing.T) []byte {
		t.Helper()
		ffmpeg, err := exec.LookPath("ffmpeg")
		if err != nil {
			t.Skip("there is no ffmpeg to make a film with")
		}
		out := filepath.Join(t.TempDir(), "film."+format)
		if raw, err := exec.CommandContext(t.Context(), ffmpeg, "-v", "error", "-f", "lavfi", "-i", "testsrc=duration=1:size=640x360:rate=10", "-c:v", "mpeg4", out).CombinedOutput(); err != nil {
			t.Fatalf("make a film: %v %s", err, raw)
		}
		raw, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
}

// heic converts a PNG or JPEG to HEIC. It skips the test without heif-enc, which is not always
// installed with heif-convert.
func heic(t *testing.T, content []byte) []byte {
	t.Helper()
	enc, err := exec.LookPath("heif-enc")
	if err != nil {
		t.Skip("there is no heif-enc to make a HEIC with")
	}
	in, out := filepath.Join(t.TempDir(), "in.png"), filepath.Join(t.TempDir(), "out.heic")
	if bytes.HasPrefix(content, []byte("\xff\xd8")) {
		in = strings.TrimSuffix(in, "png") + "jpg"
	}
	if err := os.WriteFile(in, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if raw, err := exec.CommandContext(t.Context(), enc, in, "-o", out).CombinedOutput(); err != nil {
		t.Skipf("heif-enc makes no HEIC here: %v %s", err, raw)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestAHEICIsUpright: a HEIC is turned by its own rotation, or by its EXIF if it has none, but
// never by both.
func TestAHEICIsUpright(t *testing.T) {
	t.Parallel()
	m := helped(t, t.TempDir(), "heic")
	const clockwise = 6 // EXIF orientation
	// heif-enc also writes a matching rotation box, which the second case replaces.
	both := heic(t, withOrientation(asJPEG(t, corner(128, 64)), clockwise, binary.BigEndian, "MM\x00*"))
	for name, content := range map[string][]byte{"both": both, "EXIF alone": bytes.Replace(both, []byte("irot"), []byte("free"), 1)} {
		src, _ := source(content)
		src.Sum = name
		got, err := m.Make(t.Context(), someone, src, 256)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		img := decode(t, got)
		if b := img.Bounds(); b.Dx() != 64 || b.Dy() != 128 || !red(img.At(48, 32)) || red(img.At(16, 96)) {
			t.Errorf("%s: the picture is %v, and its red quarter is not at the top right", name, b)
		}
	}
}

// onePage returns a PDF with one A4 page.
func onePage(text string) []byte {
	stream := "BT /F1 36 Tf 60 300 Td (" + text + ") Tj ET"
	var b strings.Builder
	b.WriteString("%PDF-1.4\n")
	var at []int
	for i, body := range []string{
		"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/MediaBox[0 0 595 842]/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d>>stream\n%s\nendstream", len(stream), stream), "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
	} {
		at = append(at, b.Len())
		fmt.Fprintf(&b, "%d 0 obj%s\nendobj\n", i+1, body)
	}
	start := b.Len()
	b.WriteString("xref\n0 6\n0000000000 65535 f \n")
	for _, o := range at {
		fmt.Fprintf(&b, "%010d 00000 n \n", o)
	}
	fmt.Fprintf(&b, "trailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", start)
	return []byte(b.String())
}
