package tus

import (
	"strconv"
	"strings"

	"example.org/smartdrive/internal/base/drive"
)

// number formats n for a header.
func number[N ~int64 | ~int](n N) string { return strconv.FormatInt(int64(n), 10) }

// parseNumber parses the header name with value s: a number of bytes, digits only. BadRequest
// otherwise.
func parseNumber(name, s string) (drive.ByteSize, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strings.Trim(s, "0123456789") != "" {
		return 0, drive.BadField(name, drive.Malformed, "expected", "a number of bytes")
	}
	return drive.ByteSize(n), nil
}
