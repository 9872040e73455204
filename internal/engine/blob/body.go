package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
)

// Body is the checked front door: the bytes of one part or one small file. Read hashes what it
// hands out. Once Read has returned io.EOF, Finish checks the declared digests and returns what is
// known of the bytes; a driver makes nothing durable before that.
type Body interface {
	io.Reader
	Finish() (Part, error)
	// Size is the declared length, or UnknownSize. A driver that must announce the length of what
	// it sends need not collect the bytes first.
	Size() drive.ByteSize
	// Sources says where all of the bytes lie already, in order; nil: they come from somewhere
	// else. A driver that can share them need not write what it reads, but reads it all the same,
	// for that is how it is hashed.
	Sources() []Source
}

// Source is where bytes of a Body lie already.
type Source struct {
	Object Object
	Offset drive.ByteSize
	Size   drive.ByteSize
}

// BodyOptions say what a body must be.
type BodyOptions struct {
	N       int            // number of the part; 0 for a whole small file
	Offset  drive.ByteSize // where it begins in its file: a multiple of the part size
	Size    drive.ByteSize // exact length, or UnknownSize
	Limit   drive.ByteSize // longest that is taken where Size is UnknownSize
	Session [16]byte

	// Tail is what Read goes on with where these bytes continue a part: Finish returns what is
	// known of all of it then. The tail is moved on by a body that was read to its end, and given
	// up by any other. nil: they begin one.
	Tail *Tail

	// Sources say where the bytes lie already, in order and all of them; nil: nowhere that is
	// known. They do not change any more.
	Sources []Source

	// Verify holds what the sender declared of these bytes (Content-Digest); nil when nothing was.
	Verify *digest.Verifier
}

// errUnfinished comes from a driver that would have made a body durable before it has read all of
// it.
var errUnfinished = errors.New("body finished before its end was read")

// NewBody returns the Body of what r yields.
//
// Its Read hashes in the caller's buffer and allocates nothing. It passes errors of r through as
// they are. A body that is too long is PartSize {limit, sent}, one that ends early PartSize
// {expected, sent}; both as soon as Read sees it. Finish returns DigestMismatch where Verify
// disagrees.
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

// hashers keeps digest.Parts: each is 18 KiB and a small file needs one too.
var hashers = sync.Pool{New: func() any { return digest.NewPart(0) }}

type body struct {
	r     io.Reader
	o     BodyOptions
	limit drive.ByteSize
	sent  drive.ByteSize
	own   Tail  // where there was none
	tail  *Tail // what hashes
	part  Part  // known once the end was read
	err   error // what Read goes on to return
}

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

// Size implements Body.
func (b *body) Size() drive.ByteSize { return b.o.Size }

// Sources implements Body.
func (b *body) Sources() []Source { return b.o.Sources }

func (b *body) add(p []byte) error {
	if _, err := b.tail.Write(p); err != nil {
		return fmt.Errorf("hash part %d: %w", b.o.N, err)
	}
	if b.o.Verify != nil {
		_, _ = b.o.Verify.Write(p)
	}
	return nil
}

// close takes the result out of the hasher.
func (b *body) close() {
	b.part = b.tail.Part(b.o.N, b.o.Offset, b.o.Session)
}

// stop ends the body with err and gives the hasher back, unless a tail goes on with it. A body that
// nobody reads to an end leaves its hasher to the garbage collector.
func (b *body) stop(err error) error {
	if b.tail == &b.own || err != io.EOF {
		b.tail.Close()
	}
	b.err = err
	return err
}

// ReadLittle reads all of a body into b, which has room for it and a byte more, by which the end is
// seen.
func ReadLittle(ctx context.Context, body Body, b []byte) (n int, part Part, err error) {
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
