// Package blobtest is the conformance suite of package blob: tests that every adapter passes, named
// after the sentences of the contract, and decorators that inject faults.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// PartSize is the part size of the suites: the smallest allowed.
const PartSize = drive.MiB

// Begun is the creation time of the suites' uploads.
var Begun = drive.TimeOf(time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC))

// Session is the session that sends parts in the suites.
var Session = [16]byte{'s', 'e', 's', 's', 'i', 'o', 'n'}

// Bytes returns n incompressible bytes that depend on seed.
func Bytes(seed uint64, n drive.ByteSize) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(b)
	return b
}

// NewRef returns the Ref of a new upload of size bytes in parts of PartSize.
func NewRef(size drive.ByteSize) blob.Ref {
	return blob.Ref{ID: drive.NewID[drive.UploadID](), Begun: Begun, PartSize: PartSize, Size: size}
}

// newRef returns a Ref of a new upload of size bytes with the part size that suits the staging s.
// It creates nothing.
func newRef(s blob.Staging, size drive.ByteSize) blob.Ref {
	ref := NewRef(size)
	ref.PartSize = partSize(s)
	return ref
}

// partSize returns the smallest part size of at least PartSize that s accepts.
func partSize(s blob.Staging) drive.ByteSize {
	n := PartSize
	for n < s.Caps().MinPart {
		n *= 2
	}
	return n
}

// Slice returns the bytes of part n of a file.
func Slice(file []byte, n int) []byte { return slice(blob.Ref{PartSize: PartSize}, file, n) }

// slice returns the bytes of part n of a file in parts of ref.PartSize, shorter for the last part.
// It shares the memory of file.
func slice(ref blob.Ref, file []byte, n int) []byte {
	from := n * int(ref.PartSize)
	return file[from:min(from+int(ref.PartSize), len(file))]
}

// WriteOf returns the Write of part n with bytes b.
func WriteOf(gen int64, n int, b []byte) blob.Write {
	return blob.Write{N: n, Gen: gen, Session: Session, Size: drive.ByteSize(len(b))}
}

// BodyOf returns a Body of part n that reads from r; size is the declared length.
func BodyOf(n int, size int, r io.Reader) blob.Body {
	return bodyOf(blob.Ref{PartSize: PartSize}, n, size, r)
}

// bodyOf returns a Body of part n that announces size bytes, whatever r has, at the part's offset
// in ref.
func bodyOf(ref blob.Ref, n int, size int, r io.Reader) blob.Body {
	return blob.NewBody(r, blob.BodyOptions{
		N: n, Offset: drive.ByteSize(n) * ref.PartSize, Size: drive.ByteSize(size), Session: Session,
	})
}

// Send writes b as part n with generation gen and correct digests, and returns the result of
// Staging.Write.
func Send(ctx context.Context, s blob.Staging, ref blob.Ref, gen int64, n int, b []byte) (blob.Part, error) {
	return s.Write(ctx, ref, WriteOf(gen, n, b), bodyOf(ref, n, len(b), bytes.NewReader(b)))
}

// PartOf returns the Part that results from the bytes b.
func PartOf(t testing.TB, n int, b []byte) blob.Part {
	t.Helper()
	return partOf(t, blob.Ref{PartSize: PartSize}, n, b)
}

// partOf returns the Part that Write returns for b as part n of ref, computed without a store.
func partOf(t testing.TB, ref blob.Ref, n int, b []byte) blob.Part {
	t.Helper()
	body := bodyOf(ref, n, len(b), bytes.NewReader(b))
	if _, err := io.Copy(io.Discard, body); err != nil {
		t.Fatal(err)
	}
	p, err := body.Finish()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// errConnectionLost is the error of a lost client connection.
var errConnectionLost = errors.New("connection reset")

// cutReader returns a reader of b that then fails with errConnectionLost.
func cutReader(b []byte) io.Reader {
	return io.MultiReader(bytes.NewReader(b), errReader{errConnectionLost})
}

// errReader is a reader whose every Read fails with err.
type errReader struct{ err error }

// Read returns no bytes and r.err.
func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// blockingReader is a reader that returns its bytes, closes reached, and then blocks until a value
// is sent to open.
type blockingReader struct {
	first   io.Reader
	reached chan struct{}
	open    chan error // nil ends the reader with io.EOF, else its error
	at      bool       // reached is closed
}

// newBlockingReader returns a gate with the bytes b.
func newBlockingReader(b []byte) *blockingReader {
	return &blockingReader{first: bytes.NewReader(b), reached: make(chan struct{}), open: make(chan error, 1)}
}

// Read returns the bytes of g.first. At their end it closes g.reached and blocks until the test
// sends nil, which ends the stream, or an error on g.open.
func (g *blockingReader) Read(p []byte) (int, error) {
	n, err := g.first.Read(p)
	if err != io.EOF || n > 0 {
		return n, nil
	}
	if !g.at {
		g.at = true
		close(g.reached)
	}
	if err := <-g.open; err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// wantKind fails the test unless err has the kind want.
func wantKind(t testing.TB, err error, want drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, want) {
		t.Fatalf("error is %v, want kind %v", err, want)
	}
}

// noError fails the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// read returns all bytes of o and closes it.
func read(t testing.TB, o blob.Object, err error) []byte {
	t.Helper()
	noError(t, err)
	b := make([]byte, o.Size())
	if n, err := o.ReadAt(b, 0); n != len(b) || err != nil && err != io.EOF {
		t.Fatalf("read %d of %d bytes: %v", n, len(b), err)
	}
	noError(t, o.Close())
	return b
}
