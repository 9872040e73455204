package blob

import (
	"context"
	"fmt"

	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
)

// Withheld is a piece whose bytes are there and that the journal does not name yet.
type Withheld interface {
	// Part is what Extend would have returned.
	Part() Part
	// Enter does what is left of Extend, with its errors: then it is discarded.
	Enter(ctx context.Context) error
	// Discard leaves the tail as it was before.
	Discard(ctx context.Context)
}

// Extend says which piece comes and under which right.
type Extend struct {
	N       int
	Gen     int64
	Session [16]byte
	At      drive.ByteSize // length of the tail
	Whole   drive.ByteSize // length that makes it a part
}

// Write is the Extend as a Write of the part, for what is the same with both. The length of what comes is not known.
func (e Extend) Write() Write {
	return Write{N: e.N, Gen: e.Gen, Session: e.Session, Size: UnknownSize}
}

// Admits keeps a tail inside its part, and the part inside its file and its slot.
func (e Extend) Admits(ref Ref) error {
	w := e.Write()
	w.Size = e.Whole
	if err := ref.Admits(w); err != nil {
		return err
	}
	if e.At < 0 || e.Whole <= 0 || e.At > e.Whole {
		return drive.Fail(drive.PartSize, "limit", e.Whole, "sent", e.At)
	}
	return nil
}

// Moved is the error of an Extend whose tail has another length than it says.
func (e Extend) Moved(have drive.ByteSize) error {
	return drive.Fail(drive.OffsetMismatch, "part", e.N, "offset", have, "sent", e.At)
}

// Check says whether a body was one of this Extend.
func (e Extend) Check(got Part, came drive.ByteSize) error {
	if got.N != e.N || got.Size != e.At+came || got.Size > e.Whole {
		return fmt.Errorf("body ends part %d at byte %d, the tail of part %d is extended by %d from %d", got.N, got.Size, e.N, came, e.At)
	}
	return nil
}

// Tail is what is known of the bytes of a tail while more of them come: the running hashes that a Body goes on with. It is about 18
// KiB. It is not safe for concurrent use.
type Tail struct {
	hash *digest.Part // nil: given up
	crc  digest.CRC32
	size drive.ByteSize
}

// NewTail returns the empty tail of the part that begins at offset in its file.
func NewTail(offset drive.ByteSize) *Tail {
	t := &Tail{hash: hashers.Get().(*digest.Part)}
	t.hash.Reset(int64(offset))
	return t
}

// Size returns how many bytes it has seen; -1 when it is of no use any more, because a Body of it has failed.
func (t *Tail) Size() drive.ByteSize {
	if t.hash == nil {
		return -1
	}
	return t.size
}

// Write implements io.Writer, for a tail that is read back.
func (t *Tail) Write(p []byte) (int, error) {
	n, err := t.hash.Write(p)
	_, _ = t.crc.Write(p[:n])
	t.size += drive.ByteSize(n)
	return n, err
}

// Part returns what is known of the bytes so far.
func (t *Tail) Part(n int, offset drive.ByteSize, session [16]byte) Part {
	p := Part{N: n, Size: t.size, CRC32: t.crc.Sum32(), CV: t.hash.CV(), Session: session}
	if offset == 0 {
		p.Root = t.hash.Root()
	}
	return p
}

// Close gives the memory back.
func (t *Tail) Close() {
	if t.hash != nil {
		hashers.Put(t.hash)
		t.hash = nil
	}
}
