package digest

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"smartdrive/internal/drive"
)

// What a challenge asks for (DESIGN: instant upload).
const (
	wholeLimit    = int64(64 * drive.MiB) // up to here the whole file is cheap: 25 ms of CPU
	strata        = 256                   // who knows 90 % of a file passes with 2^-39
	sampleLength  = 4 << 10               // bytes; a page, so 1 MiB is read in all
	maxRange      = int64(drive.GiB)      // bytes; fits the 32-bit length, and JavaScript's buffers
	ChallengeLife = 5 * time.Minute       // from the claim to the last moment for its answer
)

// Range is a slice of a file: in JSON [offset, length].
type Range struct {
	Offset int64
	Length uint32
}

// MarshalJSON implements json.Marshaler.
func (r Range) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]int64{r.Offset, int64(r.Length)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Range) UnmarshalJSON(b []byte) error {
	var pair []int64
	if err := json.Unmarshal(b, &pair); err != nil {
		return fmt.Errorf("read range: %w", err)
	}
	if len(pair) != 2 || pair[0] < 0 || pair[1] < 0 || pair[1] > math.MaxUint32 || pair[0] > math.MaxInt64-pair[1] {
		return fmt.Errorf("range %s is not [offset, length]", b)
	}
	*r = Range{pair[0], uint32(pair[1])}
	return nil
}

// Nonce is the random key of one challenge: 64 lower-case hex digits.
type Nonce [32]byte

// MarshalText implements encoding.TextMarshaler.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(n[:])), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *Nonce) UnmarshalText(b []byte) error { return parseHex(n[:], string(b), "nonce") }

// Challenge asks a client that named the digest of a content to prove that it holds the bytes. It is chosen after the claim,
// and whoever keeps it binds it to one user, one upload and one answer.
type Challenge struct {
	Nonce     Nonce      `json:"nonce"`
	Ranges    []Range    `json:"ranges"`
	ExpiresAt drive.Time `json:"expires_at"`
}

// Expired reports whether an answer that comes at now is too late.
func (c Challenge) Expired(now drive.Time) bool { return now >= c.ExpiresAt }

// NewChallenge chooses a challenge for a content of size bytes. random must be a CSPRNG: crypto/rand.Reader. Up to 64 MiB, or
// at any size if whole is set, it asks for every byte. Above, it asks for the first block, one block of 4 KiB at a random place
// in each of 256 equal strata, and the last block; samples never stop someone who knows all but a few bytes, which is why a
// claim by MD5 alone must have whole.
func NewChallenge(random io.Reader, size int64, whole bool, now drive.Time) (Challenge, error) {
	c := Challenge{ExpiresAt: now.Add(ChallengeLife)}
	if _, err := io.ReadFull(random, c.Nonce[:]); err != nil {
		return Challenge{}, fmt.Errorf("choose nonce: %w", err)
	}
	if whole || size <= wholeLimit {
		c.Ranges = wholeRanges(size)
		return c, nil
	}
	var err error
	if c.Ranges, err = sampleRanges(random, size); err != nil {
		return Challenge{}, fmt.Errorf("choose ranges: %w", err)
	}
	return c, nil
}

func wholeRanges(size int64) []Range {
	ranges := []Range{} // in JSON an empty list, not null
	for off := int64(0); off < size; off += maxRange {
		ranges = append(ranges, Range{off, uint32(min(size-off, maxRange))})
	}
	return ranges
}

func sampleRanges(random io.Reader, size int64) ([]Range, error) {
	ranges := []Range{{0, sampleLength}}
	for i := range int64(strata) {
		start, end := stratum(i, size), stratum(i+1, size)
		off, err := uniform(random, uint64(end-start-sampleLength+1))
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, Range{start + int64(off), sampleLength})
	}
	return append(ranges, Range{size - sampleLength, sampleLength}), nil
}

// stratum returns where stratum i begins. The remainder is spread so that i*size cannot overflow.
func stratum(i, size int64) int64 { return size/strata*i + size%strata*i/strata }

// uniform returns a number below n, every one as likely as the others: draws from the incomplete last round are thrown away.
func uniform(random io.Reader, n uint64) (uint64, error) {
	var b [8]byte
	for {
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return 0, err
		}
		if v := binary.LittleEndian.Uint64(b[:]); v < math.MaxUint64-math.MaxUint64%n {
			return v % n, nil
		}
	}
}
