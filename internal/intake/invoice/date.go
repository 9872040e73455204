package invoice

import (
	"errors"
	"fmt"
	"time"
)

// Date is a calendar day without a time or zone, as yyyymmdd in decimal: 20261001. Zero is "not
// given". Dates compare with < and ==.
type Date int32

// ErrDate is what ParseDate returns for text that is not a day of the calendar.
var ErrDate = errors.New("not a date")

// NewDate returns a day. It does not check that the calendar has it; ParseDate does.
func NewDate(year, month, day int) Date { return Date(year*10000 + month*100 + day) }

// ParseDate reads 2026-10-01 or 20261001.
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

// Year returns the year: 2026.
func (d Date) Year() int { return int(d) / 10000 }

// Month returns the month as text, 2026-10, or nothing when no date is given.
func (d Date) Month() string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%04d-%02d", d.Year(), int(d)/100%100)
}

func (d Date) time() time.Time {
	return time.Date(d.Year(), time.Month(int(d)/100%100), int(d)%100, 0, 0, 0, 0, time.UTC)
}

// String returns 2026-10-01, or nothing when no date is given.
func (d Date) String() string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf("%04d-%02d-%02d", d.Year(), int(d)/100%100, int(d)%100)
}

// MarshalText returns 2026-10-01.
func (d Date) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDate does; nothing is "not given".
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
