// Package blobtest is the second half of the contract of package blob: suites that every adapter
// passes, with subtests named after the sentences they check, and decorators that make a healthy
// adapter fail.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// PartSize is the part size of the suites: the smallest there is.
const PartSize = drive.MiB

// Begun is when the uploads of the suites began.
var Begun = drive.TimeOf(time.Date(2026, 11, 20, 23, 59, 59, 0, time.UTC))

// Session is who sends in the suites.
var Session = [16]byte{'s', 'e', 's', 's', 'i', 'o', 'n'}

// Bytes returns n bytes that depend on seed and do not compress.
func Bytes(seed uint64, n drive.ByteSize) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8), byte(seed >> 16), byte(seed >> 24)}).Read(b)
	return b
}

// NewRef returns a new upload of size bytes in parts of PartSize.
func NewRef(size drive.ByteSize) blob.Ref {
	return blob.Ref{ID: drive.NewID[drive.UploadID](), Begun: Begun, PartSize: PartSize, Size: size}
}

// newRef is NewRef for a staging that may not take parts as small as PartSize.
func newRef(s blob.Staging, size drive.ByteSize) blob.Ref {
	ref := NewRef(size)
	ref.PartSize = partSize(s)
	return ref
}

// partSize returns the smallest part size that a staging takes.
func partSize(s blob.Staging) drive.ByteSize {
	n := PartSize
	for n < s.Caps().MinPart {
		n *= 2
	}
	return n
}

// Slice returns the bytes of part n of a file.
func Slice(file []byte, n int) []byte { return slice(blob.Ref{PartSize: PartSize}, file, n) }

func slice(ref blob.Ref, file []byte, n int) []byte {
	from := n * int(ref.PartSize)
	return file[from:min(from+int(ref.PartSize), len(file))]
}

// WriteOf returns what to say about a part.
func WriteOf(gen int64, n int, b []byte) blob.Write {
	return blob.Write{N: n, Gen: gen, Session: Session, Size: drive.ByteSize(len(b))}
}

// BodyOf returns the checked body of part n that r yields; size is what was promised.
func BodyOf(n int, size int, r io.Reader) blob.Body {
	return bodyOf(blob.Ref{PartSize: PartSize}, n, size, r)
}

func bodyOf(ref blob.Ref, n int, size int, r io.Reader) blob.Body {
	return blob.NewBody(r, blob.BodyOptions{
		N: n, Offset: drive.ByteSize(n) * ref.PartSize, Size: drive.ByteSize(size), Session: Session,
	})
}

// Send writes a part.
func Send(ctx context.Context, s blob.Staging, ref blob.Ref, gen int64, n int, b []byte) (blob.Part, error) {
	return s.Write(ctx, ref, WriteOf(gen, n, b), bodyOf(ref, n, len(b), bytes.NewReader(b)))
}

// PartOf returns what is to be known of a part, from its bytes.
func PartOf(t testing.TB, n int, b []byte) blob.Part {
	t.Helper()
	return partOf(t, blob.Ref{PartSize: PartSize}, n, b)
}

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

// errCut is what a client's connection says when it is gone.
var errCut = errors.New("connection reset")

// cutReader yields b and then an error.
func cutReader(b []byte) io.Reader { return io.MultiReader(bytes.NewReader(b), errReader{errCut}) }

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// gate is a reader in the middle of which a test can stop: it yields b, says so, and goes on when
// it is told.
type gate struct {
	first   io.Reader
	reached chan struct{}
	open    chan error // nil: the end, else the error
	at      bool
}

func newGate(b []byte) *gate {
	return &gate{first: bytes.NewReader(b), reached: make(chan struct{}), open: make(chan error, 1)}
}

func (g *gate) Read(p []byte) (int, error) {
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

func wantKind(t testing.TB, err error, want drive.Kind) {
	t.Helper()
	if !drive.IsKind(err, want) {
		t.Fatalf("error is %v, want kind %v", err, want)
	}
}

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
