package blob

import (
	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// Tail holds the running hashes of an incomplete part, about 18 KiB. A Body continues it. Tail is
// not safe for concurrent use.
type Tail struct {
	hash *digest.Part // nil: closed
	crc  digest.CRC32
	size drive.ByteSize
}

// NewTail returns an empty Tail for the part at offset in its file. The caller closes it.
func NewTail(offset drive.ByteSize) *Tail {
	t := &Tail{hash: hashers.Get().(*digest.Part)}
	t.hash.Reset(int64(offset))
	return t
}

// Size returns the number of bytes hashed so far, or -1 if the tail is closed, for example because
// a Body that continued it has failed.
func (t *Tail) Size() drive.ByteSize {
	if t.hash == nil {
		return -1
	}
	return t.size
}

// Write hashes p. It implements io.Writer, to rebuild a tail from stored bytes.
func (t *Tail) Write(p []byte) (int, error) {
	n, err := t.hash.Write(p)
	_, _ = t.crc.Write(p[:n])
	t.size += drive.ByteSize(n)
	return n, err
}

// Part returns the description of the bytes so far, as part n, which begins at offset in the file.
// Root is set only if offset is 0. The tail must not be closed.
func (t *Tail) Part(n int, offset drive.ByteSize, session [16]byte) Part {
	p := Part{N: n, Size: t.size, CRC32: t.crc.Sum32(), Session: session}
	if offset == 0 {
		p.CV, p.Root = t.hash.CVAndRoot()
	} else {
		p.CV = t.hash.CV()
	}
	return p
}

// Close returns the hasher to the pool, so the tail must not be written or described afterwards;
// Size then is -1. It may be called more than once.
func (t *Tail) Close() {
	if t.hash != nil {
		hashers.Put(t.hash)
		t.hash = nil
	}
}
