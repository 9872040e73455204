package blob_test

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"testing"
	"testing/iotest"

	"lukechampine.com/blake3"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
	"example.org/smartdrive/internal/engine/blob/blobtest"
)

func read(r io.Reader, o blob.BodyOptions) (blob.Part, error) {
	b := blob.NewBody(r, o)
	if _, err := io.Copy(io.Discard, b); err != nil {
		return blob.Part{}, err
	}
	return b.Finish()
}

func TestFinishReturnsDigestsOfBody(t *testing.T) {
	t.Parallel()
	session := [16]byte{1, 2}
	for _, size := range []drive.ByteSize{0, 1, 16 << 10, 100_001} {
		b := blobtest.Bytes(uint64(size), size)
		for name, o := range map[string]blob.BodyOptions{
			"exact":   {Size: size, Session: session},
			"unknown": {Size: blob.UnknownSize, Limit: size, Session: session},
		} {
			got, err := read(iotest.DataErrReader(bytes.NewReader(b)), o)
			want := blob.Part{Size: size, CRC32: crc32.ChecksumIEEE(b), CV: got.CV, Root: blake3.Sum256(b), Session: session}
			if err != nil || got != want {
				t.Errorf("%s, %d bytes: %+v, %v, want %+v", name, size, got, err, want)
			}
		}
	}
}

func TestBodyOfLaterPartHasNoRoot(t *testing.T) {
	t.Parallel()
	b := blobtest.Bytes(1, 5000)
	got, err := read(iotest.OneByteReader(bytes.NewReader(b)), blob.BodyOptions{N: 3, Offset: 3 << 20, Size: 5000})
	if err != nil || !got.Root.IsZero() || got.N != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	want, crc, err := digest.HashPart(t.Context(), bytes.NewReader(append(make([]byte, 3<<20), b...)), 3<<20, 5000, nil)
	if err != nil || got.CV != want || got.CRC32 != crc {
		t.Errorf("chaining value %v, want %v, %v", got.CV, want, err)
	}
}

func TestBodyRejectsWrongLength(t *testing.T) {
	t.Parallel()
	b := blobtest.Bytes(1, 1000)
	for name, c := range map[string]struct {
		o    blob.BodyOptions
		args drive.Args
	}{
		"longer":  {blob.BodyOptions{Size: 999}, drive.Args{"limit": drive.ByteSize(999), "sent": drive.ByteSize(1000)}},
		"shorter": {blob.BodyOptions{Size: 1001}, drive.Args{"expected": drive.ByteSize(1001), "sent": drive.ByteSize(1000)}},
		"unknown and longer": {
			blob.BodyOptions{Size: blob.UnknownSize, Limit: 999}, drive.Args{"limit": drive.ByteSize(999), "sent": drive.ByteSize(1000)},
		},
	} {
		_, err := read(bytes.NewReader(b), c.o)
		var e *drive.Error
		if !errors.As(err, &e) || e.Kind != drive.PartSize {
			t.Fatalf("%s: %v", name, err)
		}
		for key, want := range c.args {
			if e.Args[key] != want {
				t.Errorf("%s: %s is %v, want %v", name, key, e.Args[key], want)
			}
		}
	}
}

func TestBodyReturnsReaderErrors(t *testing.T) {
	t.Parallel()
	cut := errors.New("connection reset")
	b := blob.NewBody(io.MultiReader(bytes.NewReader([]byte("abc")), iotest.ErrReader(cut)), blob.BodyOptions{Size: 10})
	for range 2 {
		if _, err := io.Copy(io.Discard, b); err != cut {
			t.Errorf("Read: %v", err)
		}
	}
	if _, err := b.Finish(); err != cut {
		t.Errorf("Finish: %v", err)
	}
}

func TestBodyVerifiesDeclaredDigests(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]bool{"crc32c=:yZRlqg==:": true, "crc32c=:AAAAAA==:": false} { // of "hello world"
		declared, err := digest.ParseContentDigest(field)
		if err != nil {
			t.Fatal(err)
		}
		o := blob.BodyOptions{Size: 11, Verify: digest.NewVerifier(declared)}
		_, err = read(bytes.NewReader([]byte("hello world")), o)
		if want && err != nil || !want && !drive.IsKind(err, drive.DigestMismatch) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestFinishBeforeEOFFails(t *testing.T) {
	t.Parallel()
	b := blob.NewBody(bytes.NewReader(make([]byte, 10)), blob.BodyOptions{Size: 10})
	if _, err := io.ReadFull(b, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Finish(); err == nil {
		t.Error("finished although more could come")
	}
}

func TestBodyAllocatesNothingPerRead(t *testing.T) {
	buf := make([]byte, 1<<10)
	r := bytes.NewReader(make([]byte, 1<<20))
	b := blob.NewBody(r, blob.BodyOptions{Size: 1 << 20})
	if n := testing.AllocsPerRun(500, func() {
		if _, err := b.Read(buf); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations per read", n)
	}
}
