package digest

import (
	"hash/crc32"
	"math/rand/v2"
	"testing"
)

func TestCombineCRC32(t *testing.T) {
	t.Parallel()
	b := content(1 << 17)
	random := rand.New(rand.NewPCG(7, 8))
	for _, lenB := range []int{0, 1, 2, 3, 7, 8, 255, 256, 4095, 65536, 1 << 17, random.IntN(1 << 17), random.IntN(1 << 17)} {
		for _, lenA := range []int{0, 1, 100, (1 << 17) - lenB} {
			if lenA < 0 || lenA+lenB > len(b) {
				continue
			}
			all := b[:lenA+lenB]
			got := CombineCRC32(crc32.ChecksumIEEE(all[:lenA]), crc32.ChecksumIEEE(all[lenA:]), int64(lenB))
			if want := crc32.ChecksumIEEE(all); got != want {
				t.Errorf("%d + %d bytes: %08x, want %08x", lenA, lenB, got, want)
			}
		}
	}
}

// TestCombineCRC32OfHugeFiles reaches lengths that are too large to hash by doubling, because
// combining is associative.
func TestCombineCRC32OfHugeFiles(t *testing.T) {
	t.Parallel()
	block := content(64 * kib)
	crc, n := crc32.ChecksumIEEE(block), int64(len(block))
	left := crc
	for range 20 { // up to 64 GiB
		left, n = CombineCRC32(left, left, n), 2*n
	}
	right := crc
	for range (1 << 20) - 1 {
		right = CombineCRC32(right, crc, int64(len(block)))
	}
	if n != 64<<30 || left == crc {
		t.Fatalf("%d bytes, %08x", n, left)
	}
	if left != right {
		t.Errorf("by halves %08x, one by one %08x", left, right)
	}
}

func TestCRC32Streams(t *testing.T) {
	t.Parallel()
	var c CRC32
	writeRagged(t, &c, content(500000), rand.New(rand.NewPCG(9, 9)))
	if want := crc32.ChecksumIEEE(content(500000)); c.Sum32() != want {
		t.Errorf("%08x, want %08x", c.Sum32(), want)
	}
	if got := CRC32C([]byte("123456789")); got != 0xe3069283 { // the check value of RFC 3720 and the CRC catalogues
		t.Errorf("CRC-32C = %08x", got)
	}
}

func BenchmarkCombineCRC32(b *testing.B) {
	for b.Loop() {
		_ = CombineCRC32(0x12345678, 0x9abcdef0, 8*mib)
	}
}
