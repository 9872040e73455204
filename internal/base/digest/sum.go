package digest

import (
	"encoding/hex"
	"fmt"

	"example.org/smartdrive/internal/base/drive"
)

// Size is the length in bytes of a Sum and of a CV.
const Size = 32

// Sum is the BLAKE3-256 digest of a whole content, its canonical identity. Its text form is 64
// lower-case hex digits. The zero Sum means unknown.
type Sum [Size]byte

// CV is the BLAKE3 chaining value of one part of a file of several parts. It is not the digest of
// the part's bytes, and the Sum of a file of one part cannot be computed from it. Its text form is
// 64 lower-case hex digits. The zero CV means unknown.
type CV [Size]byte

// ParseSum parses the text form. The error is a BadRequest.
func ParseSum(s string) (sum Sum, err error) { return sum, parseHex(sum[:], s, "digest") }

// ParseCV parses the text form. The error is a BadRequest.
func ParseCV(s string) (cv CV, err error) { return cv, parseHex(cv[:], s, "cv") }

// IsZero reports whether s is the zero Sum: unknown.
func (s Sum) IsZero() bool { return s == Sum{} }

// String returns the text form.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText returns 64 lower-case hex digits.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses 64 lower-case hex digits. The error is a BadRequest.
func (s *Sum) UnmarshalText(b []byte) error { return parseHex(s[:], string(b), "digest") }

// IsZero reports whether c is the zero CV: unknown.
func (c CV) IsZero() bool { return c == CV{} }

// String returns the text form.
func (c CV) String() string { return hex.EncodeToString(c[:]) }

// MarshalText returns 64 lower-case hex digits.
func (c CV) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText parses 64 lower-case hex digits. The error is a BadRequest.
func (c *CV) UnmarshalText(b []byte) error { return parseHex(c[:], string(b), "cv") }

// parseHex decodes exactly 2*len(dst) lower-case hex digits into dst. Upper case is rejected,
// because two spellings would be two index keys. After an error dst is unchanged; the error is a
// BadRequest for field.
func parseHex(dst []byte, s, field string) error {
	malformed := drive.BadField(field, drive.Malformed, "expected", fmt.Sprintf("%d lower-case hex digits", 2*len(dst)))
	if len(s) != 2*len(dst) {
		return malformed
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return malformed
		}
	}
	_, err := hex.Decode(dst, []byte(s))
	return err
}
