package digest

import (
	"encoding/hex"
	"fmt"

	"smartdrive/internal/base/drive"
)

// Size is the length in bytes of a Sum and of a CV.
const Size = 32

// Sum is the BLAKE3-256 digest of a whole content: its canonical identity. Its text form is 64
// lower-case hex digits.
type Sum [Size]byte

// CV is the chaining value of one part of a file of several parts. It is not the digest of the
// part's bytes, and for a file of one part the Sum cannot be had from it. Its text form is 64
// lower-case hex digits.
type CV [Size]byte

// ParseSum reads the text form and nothing else; the error is a BadRequest.
func ParseSum(s string) (sum Sum, err error) { return sum, parseHex(sum[:], s, "digest") }

// ParseCV reads the text form and nothing else; the error is a BadRequest.
func ParseCV(s string) (cv CV, err error) { return cv, parseHex(cv[:], s, "cv") }

// IsZero reports whether s is the zero Sum, which stands for "not known".
func (s Sum) IsZero() bool { return s == Sum{} }

func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// MarshalText implements encoding.TextMarshaler.
func (s Sum) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Sum) UnmarshalText(b []byte) error { return parseHex(s[:], string(b), "digest") }

// IsZero reports whether c is the zero CV, which stands for "not known".
func (c CV) IsZero() bool { return c == CV{} }

func (c CV) String() string { return hex.EncodeToString(c[:]) }

// MarshalText implements encoding.TextMarshaler.
func (c CV) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CV) UnmarshalText(b []byte) error { return parseHex(c[:], string(b), "cv") }

// parseHex fills dst from exactly 2*len(dst) lower-case hex digits. One spelling only: two
// spellings of one digest would be two keys in an index. After an error dst is unchanged.
func parseHex(dst []byte, s, field string) error {
	malformed := drive.Bad(field, drive.Malformed, "expected", fmt.Sprintf("%d lower-case hex digits", 2*len(dst)))
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
