package content

import (
	"encoding/binary"
	"fmt"

	"example.org/smartdrive/internal/base/digest"
)

// partBytes is the packed size of a part: its 32-byte chaining value and its CRC-32 (IEEE),
// little-endian.
const partBytes = 32 + 4

// PartSum holds the stored checksums of one part: the CV verifies ranges, and zips need the CRC.
type PartSum struct {
	CV    digest.CV
	CRC32 uint32
}

// PackParts returns the stored form of parts, in order.
func PackParts(parts []PartSum) []byte {
	out := make([]byte, 0, len(parts)*partBytes)
	for _, p := range parts {
		out = append(out, p.CV[:]...)
		out = binary.LittleEndian.AppendUint32(out, p.CRC32)
	}
	return out
}

// UnpackParts decodes the output of PackParts. It fails if the length does not fit.
func UnpackParts(packed []byte) ([]PartSum, error) {
	if len(packed)%partBytes != 0 {
		return nil, fmt.Errorf("%d bytes are no list of parts", len(packed))
	}
	parts := make([]PartSum, len(packed)/partBytes)
	for i := range parts {
		raw := packed[i*partBytes:]
		copy(parts[i].CV[:], raw)
		parts[i].CRC32 = binary.LittleEndian.Uint32(raw[32:])
	}
	return parts, nil
}
