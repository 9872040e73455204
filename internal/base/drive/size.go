package drive

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes.
type ByteSize int64

// Binary units.
const (
	KiB ByteSize = 1 << 10
	MiB ByteSize = 1 << 20
	GiB ByteSize = 1 << 30
	TiB ByteSize = 1 << 40
)

// sizeUnits lists the units, largest first.
var sizeUnits = []struct {
	suffix string
	size   ByteSize
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// String returns the exact size in the largest unit that divides it ("8MiB") if that is at least
// KiB, else one decimal ("1.5GiB").
func (s ByteSize) String() string {
	for _, u := range sizeUnits {
		if s >= u.size && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.suffix
		}
	}
	for _, u := range sizeUnits {
		if s >= u.size {
			return strconv.FormatFloat(float64(s)/float64(u.size), 'f', 1, 64) + u.suffix
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}

// ParseByteSize parses "8MiB", "10 GiB", "512B" or a plain number of bytes. Negative sizes are
// errors.
func ParseByteSize(s string) (ByteSize, error) {
	text, unit := strings.TrimSpace(s), ByteSize(1)
	for _, u := range sizeUnits {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, unit = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > int64(1<<62)/int64(unit) {
		return 0, fmt.Errorf("%q is not a size: use a number with B, KiB, MiB, GiB or TiB", s)
	}
	return ByteSize(n) * unit, nil
}

// UnmarshalJSON parses a JSON number of bytes, without checking its sign. It fails, and leaves s
// unchanged, for fractions, text and numbers above 63 bits.
func (s *ByteSize) UnmarshalJSON(b []byte) error {
	var n int64
	if err := json.Unmarshal(b, &n); err != nil {
		return err
	}
	*s = ByteSize(n)
	return nil
}

// UnmarshalText parses s as ParseByteSize does, for flags and settings. On an error s is unchanged.
func (s *ByteSize) UnmarshalText(b []byte) error {
	v, err := ParseByteSize(string(b))
	if err != nil {
		return err
	}
	*s = v
	return nil
}
