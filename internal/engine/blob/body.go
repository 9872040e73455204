package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// Body is the checking reader over the bytes of one part or one small file. Read hashes the bytes
// that it returns. After Read has returned io.EOF, Finish checks the declared digests and returns
// the part's description. A driver must not make the bytes durable before Finish has succeeded.
type Body interface {
	io.Reader
	// Finish checks the declared digests and returns the description of the bytes. It must be
	// called after Read has returned io.EOF.
	Finish() (Part, error)
	// Size returns the declared length, or UnknownSize. A driver that must announce a length need
	// not buffer the bytes first if the size is known.
	Size() drive.ByteSize
	// Sources returns the existing objects that already contain all bytes of the body, in order, or
	// nil if there are none. A driver that can share those bytes need not write them. The driver
	// must still read the body to its end, because reading hashes it.
	Sources() []Source
}

// Source is a range of an existing object that contains bytes of a Body.
type Source struct {
	Object Object
	Offset drive.ByteSize
	Size   drive.ByteSize
}

// BodyOptions describe the expected bytes and limits of a Body.
type BodyOptions struct {
	N       int            // part number; 0 for a whole small file
	Offset  drive.ByteSize // of the first byte in the file: a multiple of the part size
	Size    drive.ByteSize // exact length, or UnknownSize
	Limit   drive.ByteSize // maximum length if Size is UnknownSize
	Session [16]byte       // copied to Part.Session

	// Tail holds the running hashes if the body continues a part; nil: the body begins a part.
	// Finish then describes the whole part so far. A body read to its end advances the tail; any
	// failure closes the tail.
	Tail *Tail

	// Sources are returned by Body.Sources; nil: none. Their bytes must not change any more.
	Sources []Source

	// Verify checks the digests declared by the sender (Content-Digest); nil: none were declared.
	Verify *digest.Verifier
}

// errUnfinished reports that the driver called Finish before Read had returned io.EOF.
var errUnfinished = errors.New("body finished before its end was read")

// NewBody returns a Body that reads from r.
//
// Read hashes in the caller's buffer, allocates nothing, and returns errors of r unchanged. Read
// fails with PartSize {limit, sent} as soon as the body is too long and with PartSize {expected,
// sent} if it ends early. Finish returns DigestMismatch if Verify disagrees.
func NewBody(r io.Reader, o BodyOptions) Body {
	b := &body{r: r, o: o, limit: o.Size, tail: o.Tail}
	if o.Size == UnknownSize {
		b.limit = o.Limit
	}
	if b.tail == nil {
		b.own.hash = hashers.Get().(*digest.Part)
		b.own.hash.Reset(int64(o.Offset))
		b.tail = &b.own
	}
	return b
}

// hashers pools digest.Parts, because each has 18 KiB and every small file needs one.
var hashers = sync.Pool{New: func() any { return digest.NewPart(0) }}

// body implements Body over an io.Reader.
type body struct {
	r     io.Reader
	o     BodyOptions
	limit drive.ByteSize // maximum length
	sent  drive.ByteSize // bytes read so far
	own   Tail           // the hasher of a body that begins a part
	tail  *Tail          // the hasher in use: &own or BodyOptions.Tail
	part  Part           // set when the end has been read
	err   error          // returned by every further Read; io.EOF after success
}

// Read reads and hashes the next bytes. It fails with PartSize if the body is longer than the
// limit, or shorter than the expected size. An error, io.EOF included, is final: later calls return
// it again.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p)
	b.sent += drive.ByteSize(n)
	if b.sent > b.limit {
		return 0, b.stop(drive.Fail(drive.PartSize, "limit", b.limit, "sent", b.sent))
	}
	if herr := b.add(p[:n]); herr != nil {
		return 0, b.stop(herr)
	}
	switch {
	case err == io.EOF && b.o.Size != UnknownSize && b.sent < b.o.Size:
		err = b.stop(drive.Wrap(io.ErrUnexpectedEOF, drive.PartSize, "expected", b.o.Size, "sent", b.sent))
	case err == io.EOF:
		b.close()
		err = b.stop(io.EOF)
	case err != nil:
		err = b.stop(err)
	}
	return n, err
}

// Size returns the declared length, or UnknownSize.
func (b *body) Size() drive.ByteSize { return b.o.Size }

// Sources returns the existing objects that contain the bytes; nil: none.
func (b *body) Sources() []Source { return b.o.Sources }

// add adds p to the hash of the part and to BodyOptions.Verify, if set. The caller passes each byte
// once, in order. It fails only if the tail is longer than its hasher accepts.
func (b *body) add(p []byte) error {
	if _, err := b.tail.Write(p); err != nil {
		return fmt.Errorf("hash part %d: %w", b.o.N, err)
	}
	if b.o.Verify != nil {
		_, _ = b.o.Verify.Write(p)
	}
	return nil
}

// close sets b.part, the description of all bytes read, from the hasher. It releases nothing; stop
// returns the hasher to the pool.
func (b *body) close() {
	b.part = b.tail.Part(b.o.N, b.o.Offset, b.o.Session)
}

// stop records err as the result of every further Read and returns it. It returns the hasher to the
// pool, unless err is io.EOF and a tail of the caller continues with it. The hasher of a body that
// is not read to an end or error is left to the garbage collector.
func (b *body) stop(err error) error {
	if b.tail == &b.own || err != io.EOF {
		b.tail.Close()
	}
	b.err = err
	return err
}

// ReadSmall reads a small body to its end into b and returns its length and its Finish result. b
// must be at least one byte longer than the longest body allowed; a body that fills b fails with
// PartSize {limit, sent}. A cancelled ctx ends reading with its error.
func ReadSmall(ctx context.Context, body Body, b []byte) (n int, part Part, err error) {
	for err == nil {
		if err := ctx.Err(); err != nil {
			return n, Part{}, err
		}
		if n == len(b) {
			return n, Part{}, drive.Fail(drive.PartSize, "limit", len(b)-1, "sent", n)
		}
		var m int
		m, err = body.Read(b[n:])
		n += m
	}
	if err != io.EOF {
		return n, Part{}, err
	}
	part, err = body.Finish()
	if err == nil && int64(part.Size) != int64(n) {
		err = fmt.Errorf("body of %d bytes gave %d", part.Size, n)
	}
	return n, part, err
}

// Finish checks the declared digests and returns the part's description. It returns errUnfinished
// before the end has been read, and the error of Read after a failed Read.
func (b *body) Finish() (Part, error) {
	switch {
	case b.err == nil:
		return Part{}, errUnfinished
	case b.err != io.EOF:
		return Part{}, b.err
	}
	if b.o.Verify != nil {
		if err := b.o.Verify.Verify(); err != nil {
			return Part{}, err
		}
	}
	return b.part, nil
}
