package blob

import (
	"errors"
	"io"

	"example.org/smartdrive/internal/base/drive"
)

// MemoryObject is an Object whose bytes are all in memory. The caller must not change them while it
// is in use.
type MemoryObject []byte

var _ Object = MemoryObject(nil)

// ReadAt copies bytes from off into b (io.ReaderAt). It returns io.EOF if b is longer than the
// rest, and an error for a negative offset.
func (c MemoryObject) ReadAt(b []byte, off int64) (n int, err error) {
	if off < 0 {
		return 0, errors.New("read content: negative offset")
	}
	if off < int64(len(c)) {
		n = copy(b, c[off:])
	}
	if n < len(b) {
		err = io.EOF
	}
	return n, err
}

// Close does nothing.
func (MemoryObject) Close() error { return nil }

// Size returns the number of bytes.
func (c MemoryObject) Size() drive.ByteSize { return drive.ByteSize(len(c)) }
