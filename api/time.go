package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is a point in time. Its JSON form is RFC 3339 in UTC with milliseconds.
type Time struct{ time.Time }

// timeLayout is the text form of a Time.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// String returns RFC 3339 in UTC with milliseconds.
func (t Time) String() string { return t.UTC().Format(timeLayout) }

// MarshalText returns RFC 3339 in UTC with milliseconds. The error is always nil.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalJSON returns the text form as a JSON string. The error is always nil.
func (t Time) MarshalJSON() ([]byte, error) { return []byte(`"` + t.String() + `"`), nil }

// UnmarshalText parses any RFC 3339 time and rounds it down to a millisecond.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("parse time: %w", err)
	}
	t.Time = v.UTC().Truncate(time.Millisecond)
	return nil
}

// UnmarshalJSON parses a JSON string as UnmarshalText does; null leaves t unchanged.
func (t *Time) UnmarshalJSON(b []byte) error {
	var text *string
	if err := json.Unmarshal(b, &text); err != nil || text == nil {
		return err
	}
	return t.UnmarshalText([]byte(*text))
}
