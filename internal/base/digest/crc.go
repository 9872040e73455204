package digest

import "hash/crc32"

// CRC32 is a running CRC-32 (IEEE 802.3, as in zip and gzip). The zero value is ready to use.
type CRC32 uint32

// Write adds p to the IEEE checksum. It returns len(p) and no error.
func (c *CRC32) Write(p []byte) (int, error) {
	*c = CRC32(crc32.Update(uint32(*c), crc32.IEEETable, p))
	return len(p), nil
}

// Sum32 returns the CRC of the bytes written so far.
func (c CRC32) Sum32() uint32 { return uint32(c) }

// CRC32C returns the CRC-32C (RFC 9260 appendix B) of p.
func CRC32C(p []byte) uint32 { return crc32.Checksum(p, castagnoli) }

// castagnoli is the table of CRC-32C.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcOne is the polynomial 1. A CRC-32 is a polynomial over GF(2) of degree below 32, taken modulo
// crc32.IEEE. Bits are reversed: the highest bit is the coefficient of x^0, the lowest that of
// x^31.
const crcOne uint32 = 1 << 31

// CombineCRC32 returns the CRC-32 of A followed by B from the CRC-32 of each and the length of B in
// bytes, in O(log lenB) time.
//
// Appending lenB bytes to A multiplies its polynomial by x^(8·lenB); B's polynomial is then added
// by exclusive or. The inversions at both ends of a CRC-32 cancel out.
func CombineCRC32(a, b uint32, lenB int64) uint32 {
	shift := crcOne
	for i, n := 3, uint64(lenB); n > 0; i, n = i+1, n>>1 { // bit i-3 of lenB stands for x^(2^i)
		if n&1 == 1 {
			shift = crcMul(shift, crcPowers[i%32])
		}
	}
	return crcMul(shift, a) ^ b
}

// crcPowers[i] is x^(2^i). The powers repeat after 32 of them, because x^(2^32) = x modulo an
// irreducible polynomial of degree 32.
var crcPowers = func() (p [32]uint32) {
	p[0] = crcOne >> 1
	for i := 1; i < len(p); i++ {
		p[i] = crcMul(p[i-1], p[i-1])
	}
	return p
}()

// crcMul returns a·b modulo crc32.IEEE: long multiplication, one coefficient of a at a time from
// x^0 up.
func crcMul(a, b uint32) uint32 {
	var product uint32
	for ; a != 0; a <<= 1 {
		if a&crcOne != 0 {
			product ^= b
		}
		carry := b & 1 // the coefficient of x^31, about to become x^32
		b >>= 1
		if carry != 0 {
			b ^= crc32.IEEE
		}
	}
	return product
}
