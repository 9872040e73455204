package thumb_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/png"
	"io"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/usecase/thumb"
)

// TestMain is also the main function of a child; the first argument selects which one.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if in, ok := map[string]io.Reader{"decode": os.Stdin, "hungry": hungry{}, "busy": busy{}}[os.Args[1]]; ok {
			os.Exit(thumb.Serve(os.Args[2:], in, os.Stdout))
		}
		if os.Args[1] == "helper" { // a third-party program; it reports what it can access
			os.Exit(probe(os.Args[2:]))
		}
		if os.Args[1] == "other" {
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// hungry uses more memory than allowed, and busy more time, like a decoder whose file has a false
// header.
type (
	hungry struct{}
	busy   struct{}
)

func (hungry) Read([]byte) (int, error) {
	all := make([][]byte, 1<<10)
	for i := range all {
		all[i] = bytes.Repeat([]byte{1}, 1<<20)
	}
	runtime.KeepAlive(all)
	return 0, io.EOF
}

func (busy) Read([]byte) (int, error) {
	for n := 1; ; n++ {
		if n == 0 {
			return 0, io.EOF
		}
	}
}

func child(t *testing.T, name string) []string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("only Linux limits what a process takes")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{self, name}
}

func TestAChildMakesTheSamePicture(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector takes more memory than a child may have")
	}
	seen := corner(600, 300)
	seen.Pix[3] = 0
	for name, content := range map[string][]byte{
		"jpeg": asJPEG(t, corner(1200, 600)), "png": asPNG(t, seen), "text": []byte("no image"), "half": asPNG(t, seen)[:500],
	} {
		src, _ := source(content)
		m := thumb.New(thumb.Options{Child: child(t, "decode")})
		got, gotErr := m.Make(t.Context(), someone, src, 256)
		want, wantErr := make1(t, content, 256)
		if got.Type != want.Type || !bytes.Equal(got.Body, want.Body) || reason(gotErr) != reason(wantErr) {
			t.Errorf("%s: %s of %d bytes, %v; here %s of %d bytes, %v", name, got.Type, len(got.Body), gotErr, want.Type, len(want.Body), wantErr)
		}
		if m.Counters.Apart.Load() != 1 {
			t.Errorf("%s was decoded here", name)
		}
	}
}

func reason(err error) any {
	var e *drive.Error
	if !errors.As(err, &e) {
		return nil
	}
	return e.Args["reason"]
}

// TestAChildEndsAtItsLimits: an image that exceeds its announced resources ends the child, and is
// not tried again.
func TestAChildEndsAtItsLimits(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector takes more memory than a child may have")
	}
	for _, name := range []string{"hungry", "busy"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := thumb.New(thumb.Options{
				Child: child(t, name), Dir: t.TempDir(), MaxMemory: 16 * drive.MiB, Processor: time.Second, Time: 10 * time.Minute,
			})
			src, opened := source(asPNG(t, corner(40, 40)))
			for _, size := range []int{256, 512, 256} {
				if _, err := m.Make(t.Context(), someone, src, size); reason(err) != "too-large" {
					t.Errorf("it ended with %v", err)
				}
			}
			if opened.Load() != 1 {
				t.Errorf("it was tried %d times", opened.Load())
			}
		})
	}
}

// TestALargeImageIsDecodedAlone: an image that exceeds the memory of parallel children is decoded
// in a child with all memory.
func TestALargeImageIsDecodedAlone(t *testing.T) {
	t.Parallel()
	if raceDetector {
		t.Skip("the race detector takes more memory than a child may have")
	}
	m := thumb.New(thumb.Options{Child: child(t, "decode"), Small: drive.MiB, MaxMemory: 8 * drive.MiB})
	for side, made := range map[int]bool{100: true, 1000: true, 2000: false} {
		src, _ := source(asPNG(t, image.NewNRGBA(image.Rect(0, 0, side, side))))
		if _, err := m.Make(t.Context(), someone, src, 256); (err == nil) != made || !made && reason(err) != "too-large" {
			t.Errorf("an image of %d pixels squared: %v", side, err)
		}
	}
	if n := m.Counters.Apart.Load(); n != 3 {
		t.Errorf("%d images were decoded apart", n)
	}
}

func TestWithoutAChildThisProcessDecodes(t *testing.T) {
	t.Parallel()
	for _, program := range [][]string{{"/nowhere/smartdrive"}, child(t, "other")} {
		m := thumb.New(thumb.Options{Child: program})
		src, _ := source(asJPEG(t, corner(40, 40)))
		if _, err := m.Make(t.Context(), someone, src, 256); err != nil || m.Counters.Apart.Load() != 0 {
			t.Errorf("with %q: %v, apart %d times", program, err, m.Counters.Apart.Load())
		}
	}
}

// withTransparency adds a chunk tRNS to a grey PNG; grey 0 becomes transparent.
func withTransparency(raw []byte) []byte {
	chunk := append(binary.BigEndian.AppendUint32(nil, 2), "tRNS\x00\x00"...)
	chunk = binary.BigEndian.AppendUint32(chunk, crc32.ChecksumIEEE(chunk[4:]))
	return append(append(bytes.Clone(raw[:33]), chunk...), raw[33:]...)
}

func TestTransparencyTakesMemory(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	grey := encoded(t, png.Encode(&b, image.NewGray(image.Rect(0, 0, 1000, 1000))), &b)
	m := thumb.New(thumb.Options{MaxMemory: 2 * drive.MiB})
	plain, _ := source(grey)
	if _, err := m.Make(t.Context(), someone, plain, 256); err != nil {
		t.Errorf("a grey image of 1 MB: %v", err)
	}
	clear, _ := source(withTransparency(grey))
	if _, err := m.Make(t.Context(), someone, clear, 256); reason(err) != "too-large" {
		t.Errorf("with transparency it takes 4 MB: %v", err)
	}
}

// TestScansAreCounted: a scan of a few bytes makes the decoder pass over all pixels.
func TestScansAreCounted(t *testing.T) {
	t.Parallel()
	raw := asJPEG(t, corner(64, 64))
	at := bytes.Index(raw, []byte{0xff, 0xda})
	head, scan, end := raw[:at], raw[at:len(raw)-2], raw[len(raw)-2:]
	for n, ok := range map[int]bool{20: true, 200: false} {
		content := append(append(bytes.Clone(head), bytes.Repeat(scan, n)...), end...)
		if _, err := make1(t, content, 256); (err == nil) != ok {
			t.Errorf("%d scans: %v", n, err)
		}
	}
}

func TestThumbnailsTakeTurnsByAccount(t *testing.T) {
	t.Parallel()
	content := asJPEG(t, corner(40, 40))
	synctest.Test(t, func(t *testing.T) {
		m := thumb.New(thumb.Options{Workers: 2})
		release, results := make(chan struct{}), make(chan error)
		for i := range 20 { // all of one account
			src := thumb.Source{Sum: string([]byte{'a' + byte(i)}) + "00", Open: func(context.Context) (thumb.File, error) {
				<-release
				return file{bytes.NewReader(content)}, nil
			}}
			go func() {
				_, err := m.Make(t.Context(), someone, src, 256)
				results <- err
			}()
		}
		synctest.Wait()
		src, _ := source(content)
		if _, err := m.Make(t.Context(), drive.NewID[drive.AccountID](), src, 256); err != nil {
			t.Errorf("another account: %v", err)
		}
		close(release)
		for range 20 {
			if err := <-results; err != nil {
				t.Error(err)
			}
		}
	})
}

// dawdling is a file that uses up the time between reads.
type dawdling struct {
	file
	ctx context.Context
}

func (d dawdling) Size() drive.ByteSize {
	<-d.ctx.Done()
	return d.file.Size()
}

func TestSlowImageIsRetriedLater(t *testing.T) {
	t.Parallel()
	content := asJPEG(t, corner(40, 40))
	synctest.Test(t, func(t *testing.T) {
		slow, opened := true, 0
		src := thumb.Source{Sum: "ab12", Open: func(ctx context.Context) (thumb.File, error) {
			opened++
			if slow {
				return dawdling{file{bytes.NewReader(content)}, ctx}, nil
			}
			return file{bytes.NewReader(content)}, nil
		}}
		m := thumb.New(thumb.Options{Dir: t.TempDir()})
		for _, size := range []int{256, 512, 256} {
			if _, err := m.Make(t.Context(), someone, src, size); !drive.IsKind(err, drive.Unavailable) {
				t.Errorf("while it is slow: %v", err)
			}
		}
		if opened != 1 {
			t.Errorf("it was tried %d times", opened)
		}
		slow = false
		time.Sleep(time.Hour)
		if _, err := m.Make(t.Context(), someone, src, 256); err != nil {
			t.Errorf("an hour later: %v", err)
		}
	})
}
