package content

import (
	"context"
	"io"

	"example.org/smartdrive/internal/base/digest"
	"example.org/smartdrive/internal/base/drive"
)

// ReadBuffer is the read size of Measure in bytes. Measure also needs 36 bytes per part.
const ReadBuffer = 128 << 10

// Measured holds the digest and checksums of content.
type Measured struct {
	Sum   digest.Sum // BLAKE3
	CRC32 uint32     // of the whole content
	Parts []PartSum
}

// Measure reads content of size bytes from src and computes its digest and checksums. Errors are
// those of src and ctx; content that ends early is io.ErrUnexpectedEOF.
func Measure(ctx context.Context, src io.ReaderAt, size, partSize drive.ByteSize) (m Measured, err error) {
	buf := make([]byte, max(1, min(int64(size), ReadBuffer)))
	if size <= partSize {
		one := digest.NewPart(0)
		m.CRC32, err = one.Load(ctx, src, int64(size), buf)
		m.Sum, m.Parts = one.Root(), []PartSum{{CV: one.CV(), CRC32: m.CRC32}}
		return m, err
	}
	var cvs []digest.CV
	for off := drive.ByteSize(0); off < size; off += partSize {
		n := min(partSize, size-off)
		cv, crc, err := digest.HashPart(ctx, src, int64(off), int64(n), buf)
		if err != nil {
			return Measured{}, err
		}
		cvs, m.Parts = append(cvs, cv), append(m.Parts, PartSum{CV: cv, CRC32: crc})
		m.CRC32 = digest.CombineCRC32(m.CRC32, crc, int64(n))
	}
	m.Sum = digest.Fold(cvs)
	return m, nil
}
