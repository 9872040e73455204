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

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// verified hands a body to the store as it comes, all but its last byte. That one follows only when
// the end of the body was read, its digests agree and last says yes: the store keeps nothing of a
// request that ends before the length that it announced, so bytes that are not what their sender
// declared are never stored, not even without an entry.
type verified struct {
	mu   sync.Mutex // the transport reads in a goroutine of its own, and may still do so when the request has ended
	body blob.Body
	size int64                 // bytes announced
	live func() error          // asked before each read of the body
	last func(blob.Part) error // asked before the last byte goes

	got   int64
	end   bool // the end of body was read
	kept  byte // the last byte
	holds bool // kept is to be sent
	part  blob.Part
	err   error // of the body, or io.EOF when everything is out
}

func (v *verified) Read(p []byte) (int, error) {
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

func (v *verified) readLocked(p []byte) (int, error) {
	if v.got < v.size {
		n, err := v.fillLocked(p)
		if n > 0 || err != nil || v.got < v.size {
			return n, err
		}
	}
	if err := v.finishLocked(); err != nil {
		return 0, err
	}
	v.err = io.EOF
	if !v.holds {
		return 0, io.EOF
	}
	p[0], v.holds = v.kept, false
	return 1, nil
}

// fillLocked reads from the body and keeps its last byte.
func (v *verified) fillLocked(p []byte) (int, error) {
	if err := v.live(); err != nil {
		return 0, err
	}
	n, err := v.body.Read(p[:min(int64(len(p)), v.size-v.got)])
	v.got += int64(n)
	switch {
	case err == io.EOF && v.got < v.size:
		return 0, drive.Wrap(io.ErrUnexpectedEOF, drive.PartSize, "expected", v.size, "sent", v.got)
	case err == io.EOF:
		v.end = true
	case err != nil:
		return 0, err
	}
	if n > 0 && v.got == v.size {
		n--
		v.kept, v.holds = p[n], true
	}
	return n, nil
}

// finishLocked reads the end of the body and judges it.
func (v *verified) finishLocked() error {
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

// errOver ends reads that come after the request.
var errOver = errors.New("request is over")

// close returns when nobody reads the body any more, with the part and the error of the body, if it
// had one. stored reports whether the last byte has been handed out: only then can the store have
// kept anything.
func (v *verified) close() (part blob.Part, stored bool, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	stored = v.err == io.EOF
	if v.err == nil {
		v.err = errOver
	}
	if stored || v.err == errOver {
		return v.part, stored, nil
	}
	return v.part, false, v.err
}

// outgoing is a body on its way to the store.
type outgoing struct {
	body blob.Body
	size drive.ByteSize        // blob.UnknownSize when it was not declared
	last func(blob.Part) error // asked before the last byte goes
	put  func(ctx context.Context, r io.Reader, size int64) error
}

// send hands o to the store. stored reports whether the store may have it although err is not nil.
// The end of ctx stops it until all bytes are there: what arrived is accepted although the client
// has gone.
func (b *Bucket) send(ctx context.Context, o outgoing) (part blob.Part, stored bool, err error) {
	if o.size == blob.UnknownSize {
		return b.sendSpooled(ctx, o)
	}
	v := &verified{body: o.body, size: int64(o.size), live: ctx.Err, last: o.last}
	if o.size <= wholeSize {
		return b.sendWhole(ctx, o, v)
	}
	err = o.put(context.WithoutCancel(ctx), v, v.size)
	part, stored, bodyErr := v.close()
	switch {
	case bodyErr != nil:
		return blob.Part{}, false, bodyErr // what the client made of it says less
	case err == nil && !stored:
		err = errors.New("the store has answered before it had everything")
	}
	return part, stored, ofStore(err)
}

// wholeSize is up to which a body is read before any of it is sent, in bytes.
const wholeSize = 64 << 10

// whole is a body that was read and checked. It is signed as a whole, where a stream is sent in
// chunks of S3 that are signed one by one, which costs both sides more than the request itself. An
// empty one would be sent in chunks of HTTP, whose end some servers leave unread and take for the
// next request.
//
// It can be sent again: a request that fails for a passing reason is, and one that a store misread.
type whole struct {
	*bytes.Reader // and no other kind: package http sends one with its header, in one piece
	content       []byte
	sum           string // SHA-256, hexadecimal
}

func wholeOf(content []byte) whole {
	sum := sha256.Sum256(content)
	return whole{bytes.NewReader(content), content, hex.EncodeToString(sum[:])}
}

// ready is a body of this process, of size bytes, as it is sent best: a small one as a whole.
func ready(r io.Reader, size int64) (io.Reader, error) {
	if size > wholeSize {
		return r, nil
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(r, content); err != nil {
		return nil, err
	}
	return wholeOf(content), nil
}

// wholeKey is the key of the context under which the transport finds the whole that it sends.
type wholeKey struct{}

// unwrap returns what the client is to send of r, and under which context; sum is empty for a
// stream.
func unwrap(ctx context.Context, r io.Reader) (_ context.Context, _ io.Reader, sum string) {
	w, ok := r.(whole)
	if !ok {
		return ctx, r, ""
	}
	return context.WithValue(ctx, wholeKey{}, w.content), w.Reader, w.sum
}

// sendWhole is send of a small body.
func (b *Bucket) sendWhole(ctx context.Context, o outgoing, v *verified) (blob.Part, bool, error) {
	content := make([]byte, v.size+1) // one more: the end is read, too
	n, err := io.ReadFull(v, content)
	part, all, bodyErr := v.close()
	if !all {
		return blob.Part{}, false, cmp.Or(bodyErr, err)
	}
	err = o.put(context.WithoutCancel(ctx), wholeOf(content[:n]), v.size)
	return part, true, ofStore(err)
}

// storeError is an error of the store, not of the body.
type storeError struct{ err error }

func (e *storeError) Error() string { return e.err.Error() }
func (e *storeError) Unwrap() error { return e.err }

func ofStore(err error) error {
	if err == nil {
		return nil
	}
	return &storeError{classify(err)}
}

// sendSpooled takes a body of undeclared length to a file first, for S3 wants to know the length.
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
	r, err := ready(io.NewSectionReader(f, 0, int64(part.Size)), int64(part.Size))
	if err != nil {
		return blob.Part{}, false, fmt.Errorf("spool: %w", err)
	}
	return part, true, ofStore(o.put(context.WithoutCancel(ctx), r, int64(part.Size)))
}

// spoolPiece is what spooling reads at once, in bytes.
const spoolPiece = 64 << 10

func spool(f *os.File, body blob.Body, live func() error) (blob.Part, error) {
	buf := make([]byte, spoolPiece)
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

func classifySpool(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return drive.Wrap(err, drive.DiskFull)
	}
	return err
}
