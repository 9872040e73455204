package digest

import (
	"context"
	"fmt"
	"io"
)

// readBuffer is what is read at once where the caller gives no buffer: 128 KiB is where pread from
// the page cache is fastest, and it is a multiple of the groups of Part.
const readBuffer = 128 << 10

// readRange passes n bytes of src from off to take, through buf (one of readBuffer bytes, or less,
// is made when it is empty). It looks at ctx before every read. Bytes that are not there are
// io.ErrUnexpectedEOF.
func readRange(ctx context.Context, src io.ReaderAt, off, n int64, buf []byte, take func([]byte) error) error {
	if len(buf) == 0 && n > 0 {
		buf = make([]byte, min(n, readBuffer))
	}
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		chunk := buf[:min(n, int64(len(buf)))]
		// io.ReaderAt: fewer bytes than asked for come with an error, all of them perhaps with
		// io.EOF.
		got, err := src.ReadAt(chunk, off)
		if got < len(chunk) {
			if err == nil || err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return fmt.Errorf("read %d bytes at %d: %w", len(chunk), off, err)
		}
		if err := take(chunk); err != nil {
			return err
		}
		off, n = off+int64(got), n-int64(got)
	}
	return nil
}

// Load hashes the next n bytes of the part from src, where the part's file begins at byte 0, and
// returns their CRC-32. Memory is bounded by buf (128 KiB when it is nil; best a multiple of 16
// KiB).
func (p *Part) Load(ctx context.Context, src io.ReaderAt, n int64, buf []byte) (crc uint32, err error) {
	var sum CRC32
	err = readRange(ctx, src, p.next(), n, buf, func(b []byte) error {
		_, _ = sum.Write(b)
		_, err := p.Write(b)
		return err
	})
	return sum.Sum32(), err
}

// PartCV re-reads the part of n bytes at off of src and returns its CV and CRC-32, to be compared
// with those that were stored: it is how suspect parts are checked and blobs scrubbed. Memory is as
// in Load. An error is one of reading (or of ctx), never a judgement about the bytes; a file that
// ends early is io.ErrUnexpectedEOF.
func PartCV(ctx context.Context, src io.ReaderAt, off, n int64, buf []byte) (cv CV, crc uint32, err error) {
	p := NewPart(off)
	if crc, err = p.Load(ctx, src, n, buf); err != nil {
		return CV{}, 0, fmt.Errorf("hash part at %d: %w", off, err)
	}
	return p.CV(), crc, nil
}
