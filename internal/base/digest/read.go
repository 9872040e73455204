package digest

import (
	"context"
	"fmt"
	"io"
)

// readBuffer is the default read size: 128 KiB is where pread from the page cache is fastest, and a
// multiple of Part's groups.
const readBuffer = 128 << 10

// readRange passes n bytes of src from off on to sink, through buf. If buf is empty, it allocates
// up to readBuffer bytes. It checks ctx before every read and stops at the first error of sink.
// Missing bytes are io.ErrUnexpectedEOF.
func readRange(ctx context.Context, src io.ReaderAt, off, n int64, buf []byte, sink func([]byte) error) error {
	if len(buf) == 0 && n > 0 {
		buf = make([]byte, min(n, readBuffer))
	}
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk := buf[:min(n, int64(len(buf)))]
		// By the contract of io.ReaderAt a short read has an error, and a full read may have
		// io.EOF.
		got, err := src.ReadAt(chunk, off)
		if got < len(chunk) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d bytes at %d: %w", len(chunk), off, err)
		}
		if err := sink(chunk); err != nil {
			return err
		}
		off, n = off+int64(got), n-int64(got)
	}
	return nil
}

// Load hashes the next n bytes of the part from src, the whole file, and returns their CRC-32. It
// reads through buf, best a multiple of 16 KiB; nil: 128 KiB are allocated.
func (p *Part) Load(ctx context.Context, src io.ReaderAt, n int64, buf []byte) (crc uint32, err error) {
	var sum CRC32
	err = readRange(ctx, src, p.next(), n, buf, func(b []byte) error {
		_, _ = sum.Write(b)
		_, err := p.Write(b)
		return err
	})
	return sum.Sum32(), err
}

// HashPart reads the part of n bytes at off of src and returns its CV and CRC-32, for comparison
// with stored values. It reads through buf like Load. Errors are of reading or of ctx; it does not
// judge the bytes. A file that ends early is io.ErrUnexpectedEOF.
func HashPart(ctx context.Context, src io.ReaderAt, off, n int64, buf []byte) (cv CV, crc uint32, err error) {
	p := NewPart(off)
	if crc, err = p.Load(ctx, src, n, buf); err != nil {
		return CV{}, 0, fmt.Errorf("hash part at %d: %w", off, err)
	}
	return p.CV(), crc, nil
}
