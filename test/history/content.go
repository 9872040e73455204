package history

import (
	"encoding/binary"
	"encoding/hex"
	"io"
	"math/rand/v2"

	"lukechampine.com/blake3"
)

// block is how many bytes one key generates. It allows reading at any offset without generating all
// earlier bytes.
const block = 64 << 10

// Content is a pseudo-random content of Size bytes: block i is the output of ChaCha8 with the key
// (Seed, i). Of two contents with one seed, the shorter one is a prefix of the longer.
type Content struct {
	Seed uint64
	Size int64
}

// ReadAt implements io.ReaderAt.
func (c Content) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for n < len(p) && off < c.Size {
		b := c.block(off / block)
		m := copy(p[n:], b[off%block:])
		m = int(min(int64(m), c.Size-off))
		n, off = n+m, off+int64(m)
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// block returns the i-th block, of block bytes.
func (c Content) block(i int64) []byte {
	var key [32]byte
	copy(key[:], "smartdrive kill")
	binary.LittleEndian.PutUint64(key[16:], c.Seed)
	binary.LittleEndian.PutUint64(key[24:], uint64(i))
	b := make([]byte, block)
	_, _ = rand.NewChaCha8(key).Read(b) // never fails
	return b
}

// Bytes returns length bytes at off, or fewer at the end of the content.
func (c Content) Bytes(off, length int64) []byte {
	b := make([]byte, length)
	n, _ := c.ReadAt(b, off) // io.EOF at the end
	return b[:n]
}

// Reader returns the whole content.
func (c Content) Reader() *io.SectionReader { return io.NewSectionReader(c, 0, c.Size) }

// Digest returns the BLAKE3 hash in hex.
func (c Content) Digest() string {
	h := blake3.New(32, nil)
	_, _ = io.Copy(h, c.Reader()) // neither fails
	return hex.EncodeToString(h.Sum(nil))
}
