package invoice

import (
	"errors"
	"fmt"
	"time"
)

// Date is a calendar day without time or zone, stored as the decimal number yyyymmdd: 20261001.
// Zero means "not given". Dates compare with < and ==.
type Date int32

// ErrDate is the error of ParseDate for a text that is not a calendar day.
var ErrDate = errors.New("not a date")

// NewDate returns a day without checking that it exists; ParseDate checks.
func NewDate(year, month, day int) Date { return Date(year*10000 + month*100 + day) }

// ParseDate parses 2026-10-01 or 20261001. Any other text, or a day that does not exist, gives
// ErrDate.
func ParseDate(text string) (Date, error) {
	digits := text
	if len(text) == len("2006-01-02") && text[4] == '-' && text[7] == '-' {
		digits = text[:4] + text[5:7] + text[8:]
	}
	if len(digits) != len("20060102") {
		return 0, ErrDate
	}
	n := 0
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' {
			return 0, ErrDate
		}
		n = n*10 + int(c-'0')
	}
	d := Date(n)
	if d.Year() < 1 || d.time().Month() != time.Month(n/100%100) || d.time().Day() != n%100 {
		return 0, ErrDate
	}
	return d, nil
}

// Year returns the year, such as 2026.
func (d Date) Year() int { return int(d) / 10000 }

// Month returns the month as 2026-10; a zero date gives "".
func (d Date) Month() string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%04d-%02d", d.Year(), int(d)/100%100)
}

// time returns midnight UTC of the day.
func (d Date) time() time.Time {
	return time.Date(d.Year(), time.Month(int(d)/100%100), int(d)%100, 0, 0, 0, 0, time.UTC)
}

// String returns 2026-10-01; a zero date gives "".
func (d Date) String() string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", d.Year(), int(d)/100%100, int(d)%100)
}

// MarshalText returns the text of String; it never fails.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses 2026-10-01 or 20261001. An empty text gives the zero date; any other text,
// or a day that does not exist, is ErrDate and leaves d unchanged.
func (d *Date) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*d = 0
		return nil
	}
	parsed, err := ParseDate(string(text))
	if err != nil {
		return fmt.Errorf("%q: %w", text, err)
	}
	*d = parsed
	return nil
}
