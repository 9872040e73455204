package blob

import (
	"smartdrive/internal/base/digest"
	"smartdrive/internal/base/drive"
)

// Tail is what is known of the bytes of a tail while more of them come: the running hashes that a
// Body goes on with. It is about 18 KiB. It is not safe for concurrent use.
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

// Size returns how many bytes it has seen; -1 when it is of no use any more, because a Body of it
// has failed.
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
	p := Part{N: n, Size: t.size, CRC32: t.crc.Sum32(), Session: session}
	if offset == 0 {
		p.CV, p.Root = t.hash.Both()
	} else {
		p.CV = t.hash.CV()
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
