package digest

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// Size and time limits of challenges.
const (
	maxRange     = int64(drive.GiB) // largest range in bytes; fits a 32-bit length and JavaScript's buffers
	ChallengeTTL = 5 * time.Minute  // time to answer a challenge for content without reading time
	answerRate   = 32 << 20         // bytes per second that the slowest client reads and hashes
)

// Range is a byte range of a file. Its JSON form is [offset, length].
type Range struct {
	Offset int64
	Length uint32
}

// MarshalJSON returns [offset, length].
func (r Range) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]int64{r.Offset, int64(r.Length)})
}

// UnmarshalJSON parses [offset, length]. It fails, and leaves r unchanged, for another form,
// negative numbers, a length above 32 bits and an end above 63 bits; a length of 0 passes.
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

// Nonce is the random key of one challenge. Its text form is 64 lower-case hex digits.
type Nonce [32]byte

// MarshalText returns 64 lower-case hex digits.
func (n Nonce) MarshalText() ([]byte, error) { return []byte(hex.EncodeToString(n[:])), nil }

// UnmarshalText parses 64 lower-case hex digits. The error is a BadRequest.
func (n *Nonce) UnmarshalText(b []byte) error { return parseHex(n[:], string(b), "nonce") }

// Challenge asks a client that named the digest of a content to prove that it has the bytes. It is
// chosen after the client's claim. The caller must bind it to one user, one upload and one answer.
type Challenge struct {
	Nonce     Nonce      `json:"nonce"`
	Ranges    []Range    `json:"ranges"`
	ExpiresAt drive.Time `json:"expires_at"`
}

// Expired reports whether an answer at time now is too late.
func (c Challenge) Expired(now drive.Time) bool { return now >= c.ExpiresAt }

// NewChallenge returns a challenge for all bytes of a content of size bytes. random must be
// cryptographically secure, such as crypto/rand.Reader. Samples would admit a client that lacks a
// few bytes, or that retries until the samples miss them.
func NewChallenge(random io.Reader, size int64, now drive.Time) (Challenge, error) {
	c := Challenge{ExpiresAt: now.Add(ChallengeTTL + ReadingTime(size))}
	if _, err := io.ReadFull(random, c.Nonce[:]); err != nil {
		return Challenge{}, fmt.Errorf("choose nonce: %w", err)
	}
	c.Ranges = wholeRanges(size)
	return c, nil
}

// ReadingTime returns how long a slow client takes to read and hash size bytes.
func ReadingTime(size int64) time.Duration { return time.Duration(size/answerRate) * time.Second }

// CoversAll reports whether the challenge covers every byte of a content of size bytes.
func (c Challenge) CoversAll(size int64) bool { return slices.Equal(c.Ranges, wholeRanges(size)) }

// wholeRanges returns consecutive ranges that cover size bytes; empty, not nil, for 0.
func wholeRanges(size int64) []Range {
	ranges := []Range{} // an empty list in JSON, not null
	for off := int64(0); off < size; off += maxRange {
		ranges = append(ranges, Range{off, uint32(min(size-off, maxRange))})
	}
	return ranges
}
