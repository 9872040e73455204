package s3

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// verifyingReader passes a body to the store but withholds its last byte. The last byte follows
// only when the body has been read to its end, its digests match and last agrees. S3 discards a
// request that is shorter than announced, so bytes that differ from their declared digests are
// never stored.
type verifyingReader struct {
	mu    sync.Mutex // guards all fields: the transport reads in its own goroutine, perhaps after the request has ended
	body  blob.Body
	size  int64                 // announced length in bytes
	alive func() error          // called before each read of the body
	last  func(blob.Part) error // called before the last byte is released

	received    int64 // bytes read from body
	end         bool  // body has returned io.EOF
	lastByte    byte  // the last byte
	lastPending bool  // lastByte has not been returned yet
	part        blob.Part
	err         error // returned by every further Read; io.EOF when all bytes have been returned
}

// Read returns the next bytes of the body; the last byte and io.EOF follow only after all checks.
// An error, io.EOF included, is permanent. It fails with the errors of fillLocked and finishLocked,
// and with errRequestEnded after close.
func (v *verifyingReader) Read(p []byte) (int, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil {
		return 0, v.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err := v.readLocked(p)
	if err != nil {
		v.err = err
	}
	return n, err
}

// readLocked returns the next bytes, and the withheld last byte only after the body has been
// checked. It records io.EOF, but not other errors, in v.err; Read does that. The caller holds
// v.mu.
func (v *verifyingReader) readLocked(p []byte) (int, error) {
	if v.received < v.size {
		n, err := v.fillLocked(p)
		if n > 0 || err != nil || v.received < v.size {
			return n, err
		}
	}
	if err := v.finishLocked(); err != nil {
		return 0, err
	}
	v.err = io.EOF
	if !v.lastPending {
		return 0, io.EOF
	}
	p[0], v.lastPending = v.lastByte, false
	return 1, nil
}

// fillLocked reads into p and withholds the last byte of the body in v.lastByte, so n may be 0
// without an error. It fails with PartSize if the body is shorter than v.size, and if the request
// has ended. The caller holds v.mu.
func (v *verifyingReader) fillLocked(p []byte) (int, error) {
	if err := v.alive(); err != nil {
		return 0, err
	}
	n, err := v.body.Read(p[:min(int64(len(p)), v.size-v.received)])
	v.received += int64(n)
	switch {
	case err == io.EOF && v.received < v.size:
		return 0, drive.Wrap(io.ErrUnexpectedEOF, drive.PartSize, "expected", v.size, "sent", v.received)
	case err == io.EOF:
		v.end = true
	case err != nil:
		return 0, err
	}
	if n > 0 && v.received == v.size {
		n--
		v.lastByte, v.lastPending = p[n], true
	}
	return n, nil
}

// finishLocked reads the body's end, checks its digests and length, calls last and then sets
// v.part. It fails with PartSize if the body is longer than v.size, and with the error of Finish or
// last; the last byte must then not be sent. The caller holds v.mu.
func (v *verifyingReader) finishLocked() error {
	for empty := 0; !v.end; empty++ {
		var more [1]byte
		n, err := v.body.Read(more[:])
		switch {
		case n > 0:
			return drive.Fail(drive.PartSize, "limit", v.size, "sent", v.size+1)
		case err == io.EOF:
			v.end = true
		case err != nil:
			return err
		case empty == 100:
			return io.ErrNoProgress
		}
	}
	part, err := v.body.Finish()
	if err != nil {
		return err
	}
	if int64(part.Size) != v.size {
		return fmt.Errorf("body of %d bytes gave %d", part.Size, v.size)
	}
	if err := v.last(part); err != nil {
		return err
	}
	v.part = part
	return nil
}

// errRequestEnded ends reads that happen after the request.
var errRequestEnded = errors.New("request is over")

// close waits for a running Read and makes later ones fail. It returns the part and the error of
// the body, if any. stored reports whether the last byte was released; otherwise the store cannot
// have kept anything.
func (v *verifyingReader) close() (part blob.Part, stored bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	stored = v.err == io.EOF
	if v.err == nil {
		v.err = errRequestEnded
	}
	if stored || v.err == errRequestEnded {
		return v.part, stored, nil
	}
	return v.part, false, v.err
}

// outgoing describes a body to be sent to the store.
type outgoing struct {
	body blob.Body
	size drive.ByteSize                                           // blob.UnknownSize if not declared
	last func(blob.Part) error                                    // called before the last byte is released; an error aborts
	put  func(ctx context.Context, r io.Reader, size int64) error // sends the bytes of r to the store
}

// send passes o to the store. stored reports whether the store may have kept the object although
// err is not nil. Cancelling ctx aborts until all bytes have arrived; after that the bytes are
// stored even if the client is gone.
func (b *Bucket) send(ctx context.Context, o outgoing) (part blob.Part, stored bool, err error) {
	if o.size == blob.UnknownSize {
		return b.sendSpooled(ctx, o)
	}
	v := &verifyingReader{body: o.body, size: int64(o.size), alive: ctx.Err, last: o.last}
	if o.size <= maxBuffered {
		return b.sendBuffered(ctx, o, v)
	}
	err = o.put(context.WithoutCancel(ctx), v, v.size)
	part, stored, bodyErr := v.close()
	switch {
	case bodyErr != nil:
		return blob.Part{}, false, bodyErr // the client library's error only follows from it
	case err == nil && !stored:
		err = errors.New("the store has answered before it had everything")
	}
	return part, stored, asStoreError(err)
}

// maxBuffered is the largest body, in bytes, that is buffered and checked before any byte is sent.
const maxBuffered = 64 << 10

// bufferedBody is a buffered and checked body. It is signed with one SHA-256; a stream is sent in
// S3 chunks that are signed one by one, which costs more than the request itself. An empty stream
// would be sent with HTTP chunking, whose end some servers leave unread and mistake for the next
// request.
//
// A bufferedBody can be sent again after a transient error or a misread request (see isMisread).
type bufferedBody struct {
	*bytes.Reader // this type exactly: package http then sends header and body in one write
	content       []byte
	sum           string // SHA-256 in hexadecimal
}

// newBufferedBody returns content as a bufferedBody.
func newBufferedBody(content []byte) bufferedBody {
	sum := sha256.Sum256(content)
	return bufferedBody{bytes.NewReader(content), content, hex.EncodeToString(sum[:])}
}

// bufferSmall returns r for sending: as a bufferedBody if size is at most maxBuffered, else r
// itself. It fails if r has fewer than size bytes.
func bufferSmall(r io.Reader, size int64) (io.Reader, error) {
	if size > maxBuffered {
		return r, nil
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	return newBufferedBody(content), nil
}

// bufferedBodyKey is the context key under which the transport finds the bytes of the bufferedBody
// being sent.
type bufferedBodyKey struct{}

// unwrapBuffered returns the context and reader to pass to the client library. For a bufferedBody,
// the context carries its bytes, so that the transport can send them again, and sum is their
// SHA-256; for a stream, sum is empty and both are returned unchanged.
func unwrapBuffered(ctx context.Context, r io.Reader) (_ context.Context, _ io.Reader, sum string) {
	w, ok := r.(bufferedBody)
	if !ok {
		return ctx, r, ""
	}
	return context.WithValue(ctx, bufferedBodyKey{}, w.content), w.Reader, w.sum
}

// sendBuffered does what send does for a body of at most maxBuffered bytes: it reads and checks the
// whole body in memory and then puts it, even if ctx ends meanwhile. The bool is false if nothing
// was put, because the body failed; true if the store may have the object, also with an error.
func (b *Bucket) sendBuffered(ctx context.Context, o outgoing, v *verifyingReader) (blob.Part, bool, error) {
	content := make([]byte, v.size+1) // one byte more, so that the end is read too
	n, err := io.ReadFull(v, content)
	part, all, bodyErr := v.close()
	if !all {
		return blob.Part{}, false, cmp.Or(bodyErr, err)
	}
	err = o.put(context.WithoutCancel(ctx), newBufferedBody(content[:n]), v.size)
	return part, true, asStoreError(err)
}

// storeError marks an error of the store, as opposed to one of the body.
type storeError struct{ err error }

// Error returns the text of the wrapped error.
func (e *storeError) Error() string { return e.err.Error() }

// Unwrap returns the wrapped error.
func (e *storeError) Unwrap() error { return e.err }

// asStoreError classifies err and wraps it in a storeError, which marks it as the store's rather
// than the body's; nil stays nil.
func asStoreError(err error) error {
	if err == nil {
		return nil
	}
	return &storeError{classify(err)}
}

// sendSpooled stores a body of undeclared length. It first writes the body to a temporary file,
// because S3 requires the length. The bool reports whether the store may have kept the object, also
// if the error is not nil.
func (b *Bucket) sendSpooled(ctx context.Context, o outgoing) (blob.Part, bool, error) {
	f, err := b.newSpool()
	if err != nil {
		return blob.Part{}, false, err
	}
	defer f.close()
	part, err := spool(f.File, o.body, ctx.Err)
	if err == nil {
		err = o.last(part)
	}
	if err != nil {
		return blob.Part{}, false, err
	}
	r, err := bufferSmall(io.NewSectionReader(f, 0, int64(part.Size)), int64(part.Size))
	if err != nil {
		return blob.Part{}, false, fmt.Errorf("spool: %w", err)
	}
	return part, true, asStoreError(o.put(context.WithoutCancel(ctx), r, int64(part.Size)))
}

// spoolBufferSize is the buffer size for spooling, in bytes.
const spoolBufferSize = 64 << 10

// spool copies body to f and returns its Finish result. It calls live before each read and stops at
// its error. It fails with DiskFull if the spool directory is full.
func spool(f *os.File, body blob.Body, live func() error) (blob.Part, error) {
	buf := make([]byte, spoolBufferSize)
	for {
		if err := live(); err != nil {
			return blob.Part{}, err
		}
		n, err := body.Read(buf)
		if _, werr := f.Write(buf[:n]); werr != nil {
			return blob.Part{}, fmt.Errorf("spool: %w", classifySpool(werr))
		}
		if err == io.EOF {
			return body.Finish()
		}
		if err != nil {
			return blob.Part{}, err
		}
	}
}

// classifySpool returns err, wrapped as DiskFull if the spool directory is full; nil stays nil.
func classifySpool(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return drive.Wrap(err, drive.DiskFull)
	}
	return err
}
