package digest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"lukechampine.com/blake3"
)

const kib, mib = 1 << 10, 1 << 20

// content returns n pseudo-random bytes, the same on every run.
func content(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// pattern returns the content of the vectors in testdata/vectors.py, computed independently of this
// code.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*31 + i/251)
	}
	return b
}

// writeRagged writes b in pieces of random length, some of them empty.
func writeRagged(t testing.TB, w io.Writer, b []byte, random *rand.Rand) {
	t.Helper()
	for len(b) > 0 {
		n := min(random.IntN(40*kib), len(b))
		if random.IntN(4) == 0 {
			n = min(random.IntN(200), len(b))
		}
		if got, err := w.Write(b[:n]); got != n || err != nil {
			t.Fatalf("Write of %d bytes = %d, %v", n, got, err)
		}
		b = b[n:]
	}
}

// sumByParts hashes b as a file of parts, in random order and with ragged writes, and folds the
// result.
func sumByParts(t testing.TB, b []byte, partSize int, random *rand.Rand) Sum {
	t.Helper()
	n := max(1, (len(b)+partSize-1)/partSize)
	cvs := make([]CV, n)
	var p Part
	var root Sum
	for _, i := range random.Perm(n) {
		p.Reset(int64(i * partSize))
		writeRagged(t, &p, b[i*partSize:min((i+1)*partSize, len(b))], random)
		cvs[i] = p.CV()
		if i == 0 {
			root = p.Root()
		}
	}
	if n == 1 {
		return root
	}
	return Fold(cvs)
}

func TestSumOfPartsIsBlake3(t *testing.T) {
	t.Parallel()
	sizes := []int{0}
	for _, edge := range []int{64, 1 * kib, 2 * kib, 15 * kib, 16 * kib, 17 * kib, 32 * kib, 48 * kib, 64 * kib, 80 * kib} {
		for d := -65; d <= 65; d++ {
			sizes = append(sizes, max(0, edge+d))
		}
	}
	all := content(slices.Max(sizes))
	random := rand.New(rand.NewPCG(1, 2))
	for _, partSize := range []int{16 * kib, 32 * kib, 64 * kib} {
		for _, size := range sizes {
			want := Sum(blake3.Sum256(all[:size]))
			if got := sumByParts(t, all[:size], partSize, random); got != want {
				t.Fatalf("%d bytes in parts of %d: %v, want %v", size, partSize, got, want)
			}
		}
	}
}

func TestSumOfLargePartsIsBlake3(t *testing.T) {
	t.Parallel()
	all := content(40*mib + 12345)
	random := rand.New(rand.NewPCG(3, 4))
	for _, partSize := range []int{1 * mib, 8 * mib} {
		for _, parts := range []int{1, 2, 3, 5} {
			for _, d := range []int{-1025, -1024, -1023, -1, 0, 1, 1023, 1024, 1025, 12345} {
				size := partSize*parts + d
				want := Sum(blake3.Sum256(all[:size]))
				if got := sumByParts(t, all[:size], partSize, random); got != want {
					t.Errorf("%d bytes in parts of %d: %v, want %v", size, partSize, got, want)
				}
			}
		}
	}
}

func TestFoldOfEveryCount(t *testing.T) {
	t.Parallel()
	all := content(40 * groupSize)
	random := rand.New(rand.NewPCG(5, 6))
	for n := 2; n <= 40; n++ {
		b := all[:n*groupSize-random.IntN(groupSize)]
		if got, want := sumByParts(t, b, groupSize, random), Sum(blake3.Sum256(b)); got != want {
			t.Errorf("%d parts: %v, want %v", n, got, want)
		}
	}
}

// TestKnownVectors uses vectors of an independent BLAKE3 implementation in another language.
func TestKnownVectors(t *testing.T) {
	t.Parallel()
	b := pattern(70000)
	first, second, inner := NewPart(0), NewPart(64*kib), NewPart(32*kib)
	_, _ = first.Write(b[:64*kib])
	_, _ = second.Write(b[64*kib:])
	_, _ = inner.Write(b[32*kib : 64*kib])
	got := []string{
		first.CV().String(), second.CV().String(), inner.CV().String(), first.Root().String(),
		Fold([]CV{first.CV(), second.CV()}).String(), NewPart(0).Root().String(),
	}
	want := []string{
		"96945ce6fabddebe43ae4342f86dd9b3bb9c998ffc58abfb7f330f5bf4dcffb5",
		"b851deadfd14aa080f09a02a0b87c9ea45fa5afa11ee7bf28c72a078e0024a1c",
		"6f85263f7d69570ecdaf7977beb0376e2b6677b5eab40ed9c415f1f2e465e6e4",
		"46158f0e326d53708735f8f5b2825c7d818848c43cb3566b9c82bf3ca01a03e0",
		"f91927ed4978384f3bed53d8bae0726cacdbb4fbcc9795afc3e55b6e1eff8db9",
		"af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestFoldDependsOnOrderAndContent(t *testing.T) {
	t.Parallel()
	b := bytes.Repeat(content(groupSize), 4) // four equal parts: only their places differ
	cvs := make([]CV, 4)
	for i := range cvs {
		p := NewPart(int64(i * groupSize))
		_, _ = p.Write(b[i*groupSize : (i+1)*groupSize])
		cvs[i] = p.CV()
	}
	want := Fold(cvs)
	for i := range 3 {
		swapped := slices.Clone(cvs)
		swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
		if Fold(swapped) == want {
			t.Errorf("parts %d and %d swapped give the same digest", i, i+1)
		}
	}
	if Fold(cvs[:3]) == want {
		t.Error("a missing part gives the same digest")
	}
}

func TestPartCVAndRootAfterEveryWrite(t *testing.T) {
	t.Parallel()
	b := content(5*groupSize + 77)
	p, at := NewPart(0), 0
	for _, n := range []int{0, 1, 1023, groupSize - 1024, groupSize, 1, 3*groupSize - 1, 77} {
		_, _ = p.Write(b[at : at+n])
		at += n
		if got, want := p.Root(), Sum(blake3.Sum256(b[:at])); got != want {
			t.Errorf("root after %d bytes: %v, want %v", at, got, want)
		}
		fresh := NewPart(0)
		_, _ = fresh.Write(b[:at])
		if p.CV() != fresh.CV() {
			t.Errorf("chaining value after %d bytes depends on the writes", at)
		}
	}
}

func TestPartRejectsBytesBeyondSubtree(t *testing.T) {
	t.Parallel()
	p := NewPart(3 * groupSize)
	if n, err := p.Write(make([]byte, groupSize+1)); n != 0 || err == nil {
		t.Errorf("a part of 16 KiB + 1 at 48 KiB: %d, %v", n, err)
	}
	if _, err := p.Write(make([]byte, groupSize)); err != nil {
		t.Errorf("a part of 16 KiB at 48 KiB: %v", err)
	}
	if _, err := p.Write([]byte{0}); err == nil {
		t.Error("one byte more was taken")
	}
}

func TestMisusePanics(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"negative offset":   func() { NewPart(-groupSize) },
		"odd offset":        func() { NewPart(groupSize + 1024) },
		"root of part 2":    func() { NewPart(groupSize).Root() },
		"fold of nothing":   func() { Fold(nil) },
		"fold of one":       func() { Fold(make([]CV, 1)) },
		"alias of blake3":   func() { NewAlias(Blake3) },
		"alias of no algo":  func() { NewAlias("sha3") },
		"field of no algo":  func() { NewVerifier([]FieldDigest{{Algo: "sha-512"}}) },
		"running of blake3": func() { NewRunning(Blake3) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		})
	}
}

func TestWriteAllocatesNothing(t *testing.T) {
	b := content(1*mib + 5000)
	p := NewPart(0)
	if n := testing.AllocsPerRun(10, func() {
		p.Reset(0)
		_, _ = p.Write(b)
		_, _ = p.Write(b[:700])
		_ = p.CV()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestPartCVFromFile(t *testing.T) {
	t.Parallel()
	b := content(3*64*kib - 1000)
	for _, buf := range [][]byte{nil, make([]byte, 1), make([]byte, 1000), make([]byte, 32*kib), make([]byte, mib)} {
		var cvs []CV
		var crc uint32
		for off := 0; off < len(b); off += 64 * kib {
			n := min(64*kib, len(b)-off)
			cv, sum, err := HashPart(t.Context(), bytes.NewReader(b), int64(off), int64(n), buf)
			if err != nil {
				t.Fatal(err)
			}
			cvs, crc = append(cvs, cv), CombineCRC32(crc, sum, int64(n))
		}
		if got, want := Fold(cvs), Sum(blake3.Sum256(b)); got != want {
			t.Errorf("buffer of %d: %v, want %v", len(buf), got, want)
		}
		if want := crc32.ChecksumIEEE(b); crc != want {
			t.Errorf("buffer of %d: crc %08x, want %08x", len(buf), crc, want)
		}
	}
}

// TestLoadContinuesPart loads the bytes received before a crash and writes the rest.
func TestLoadContinuesPart(t *testing.T) {
	t.Parallel()
	b := content(256 * kib)
	want, _, err := HashPart(t.Context(), bytes.NewReader(b), 128*kib, 128*kib, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int64{0, 1, 16 * kib, 16*kib + 1, 70000, 128 * kib} {
		p := NewPart(128 * kib)
		for _, n := range []int64{cut, 128*kib - cut} {
			if _, err := p.Load(t.Context(), bytes.NewReader(b), n, nil); err != nil {
				t.Fatal(err)
			}
		}
		if got := p.CV(); got != want {
			t.Errorf("loaded in two at %d: %v, want %v", cut, got, want)
		}
	}
}

func TestPartCVFindsEveryFlippedBit(t *testing.T) {
	t.Parallel()
	b := content(2*groupSize + 3000)
	want, _, err := HashPart(t.Context(), bytes.NewReader(b), 0, int64(len(b)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(b); i += 997 {
		b[i] ^= 4
		got, _, err := HashPart(t.Context(), bytes.NewReader(b), 0, int64(len(b)), nil)
		if err != nil || got == want {
			t.Errorf("byte %d changed: %v, %v", i, got, err)
		}
		b[i] ^= 4
	}
}

// faultyAt fails reads that include the byte at bad, like a damaged disk.
type faultyAt struct {
	io.ReaderAt
	bad int64
	err error
}

func (f faultyAt) ReadAt(p []byte, off int64) (int, error) {
	if off <= f.bad && f.bad < off+int64(len(p)) {
		n, _ := f.ReaderAt.ReadAt(p[:f.bad-off], off)
		return n, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

func TestReadErrorsAreNotDigests(t *testing.T) {
	t.Parallel()
	b := content(100 * kib)
	errDisk := errors.New("i/o error")
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		src  io.ReaderAt
		want error
	}{
		"file too short": {t.Context(), bytes.NewReader(b[:len(b)-1]), io.ErrUnexpectedEOF},
		"disk error":     {t.Context(), faultyAt{bytes.NewReader(b), 70000, errDisk}, errDisk},
		"cancelled":      {stopped, bytes.NewReader(b), context.Canceled},
	} {
		cv, crc, err := HashPart(c.ctx, c.src, 0, int64(len(b)), make([]byte, 16*kib))
		if !errors.Is(err, c.want) || !cv.IsZero() || crc != 0 {
			t.Errorf("%s: PartCV = %v, %08x, %v", name, cv, crc, err)
		}
		ch := Challenge{Ranges: wholeRanges(int64(len(b)))}
		if answer, err := Answer(c.ctx, c.src, ch, ProofHMAC); !errors.Is(err, c.want) || answer != nil {
			t.Errorf("%s: Answer = %x, %v", name, answer, err)
		}
		if err := NewRunning(MD5).CatchUp(c.ctx, c.src, int64(len(b))); !errors.Is(err, c.want) {
			t.Errorf("%s: CatchUp = %v", name, err)
		}
	}
}

func FuzzPartRaggedWrites(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte{1, 0, 255, 3, 77}, uint8(3))
	f.Fuzz(func(t *testing.T, cuts []byte, tail uint8) {
		var p Part
		p.Reset(0)
		total := int(tail)
		for _, c := range cuts[:min(len(cuts), 200)] {
			total += int(c) * 131
		}
		all := content(total)
		rest := all
		for _, c := range cuts[:min(len(cuts), 200)] {
			_, _ = p.Write(rest[:int(c)*131])
			rest = rest[int(c)*131:]
		}
		_, _ = p.Write(rest)
		if got, want := p.Root(), Sum(blake3.Sum256(all)); got != want {
			t.Fatalf("%d bytes: %v, want %v", total, got, want)
		}
	})
}

func BenchmarkPart(b *testing.B) {
	buf := content(8 * mib)
	for _, write := range []int{64 * kib, 1 * mib, 1*mib - 500} {
		b.Run(fmt.Sprintf("writes=%d", write), func(b *testing.B) {
			b.SetBytes(int64(len(buf)))
			p := NewPart(0)
			for b.Loop() {
				p.Reset(8 * mib)
				for rest := buf; len(rest) > 0; {
					n, _ := p.Write(rest[:min(write, len(rest))])
					rest = rest[n:]
				}
				_ = p.CV()
			}
		})
	}
}

func BenchmarkFold(b *testing.B) {
	cvs := make([]CV, 12800)
	for i := range cvs {
		cvs[i][0], cvs[i][1] = byte(i), byte(i>>8)
	}
	for b.Loop() {
		_ = Fold(cvs)
	}
}
