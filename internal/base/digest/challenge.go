package digest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"smartdrive/internal/base/drive"
)

// What a challenge asks for, and until when.
const (
	maxRange      = int64(drive.GiB) // bytes; fits the 32-bit length, and JavaScript's buffers
	ChallengeLife = 5 * time.Minute  // from the claim to the last moment for its answer, for content that is read at once
	answerRate    = 32 << 20         // bytes a second that the slowest client is expected to read and hash
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

// Challenge asks a client that named the digest of a content to prove that it holds the bytes. It
// is chosen after the claim, and whoever keeps it binds it to one user, one upload and one answer.
type Challenge struct {
	Nonce     Nonce      `json:"nonce"`
	Ranges    []Range    `json:"ranges"`
	ExpiresAt drive.Time `json:"expires_at"`
}

// Expired reports whether an answer that comes at now is too late.
func (c Challenge) Expired(now drive.Time) bool { return now >= c.ExpiresAt }

// NewChallenge makes a challenge for a content of size bytes. random must be a CSPRNG:
// crypto/rand.Reader. It asks for every byte. Samples would let through a client that lacks a few
// bytes, or one that asks until the samples miss what it lacks.
func NewChallenge(random io.Reader, size int64, now drive.Time) (Challenge, error) {
	c := Challenge{ExpiresAt: now.Add(ChallengeLife + ReadingTime(size))}
	if _, err := io.ReadFull(random, c.Nonce[:]); err != nil {
		return Challenge{}, fmt.Errorf("choose nonce: %w", err)
	}
	c.Ranges = wholeRanges(size)
	return c, nil
}

// ReadingTime is how long a slow machine takes to read and hash a content of size bytes.
func ReadingTime(size int64) time.Duration { return time.Duration(size/answerRate) * time.Second }

// AsksAll reports whether the challenge asks for every byte of a content of size bytes.
func (c Challenge) AsksAll(size int64) bool { return slices.Equal(c.Ranges, wholeRanges(size)) }

func wholeRanges(size int64) []Range {
	ranges := []Range{} // in JSON an empty list, not null
	for off := int64(0); off < size; off += maxRange {
		ranges = append(ranges, Range{off, uint32(min(size-off, maxRange))})
	}
	return ranges
}
