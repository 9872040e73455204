package drive

import (
	"cmp"
	"fmt"
	"time"
)

// Time is a point in time in Unix milliseconds, UTC. Zero means never or unknown. SQL stores the
// number; JSON uses RFC 3339 with milliseconds.
type Time int64

// timeLayout is the text form of a Time.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// TimeOf rounds t down to a millisecond; the zero time.Time becomes 0. The first millisecond of
// 1970, which files in archives often have, becomes 1, because 0 means no time.
func TimeOf(t time.Time) Time {
	if t.IsZero() {
		return 0
	}
	return cmp.Or(Time(t.UnixMilli()), 1)
}

// Std returns t as a time.Time in UTC; 0 becomes the zero time.Time.
func (t Time) Std() time.Time {
	if t == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(t)).UTC()
}

// Add returns t + d.
func (t Time) Add(d time.Duration) Time { return t + Time(d.Milliseconds()) }

// Sub returns t - u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t-u) * time.Millisecond }

// String returns RFC 3339 with milliseconds.
func (t Time) String() string { return t.Std().Format(timeLayout) }

// MarshalText returns RFC 3339 with milliseconds.
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText parses any RFC 3339 time and rounds it down to a millisecond. On an error t is
// unchanged.
func (t *Time) UnmarshalText(b []byte) error {
	v, err := time.Parse(time.RFC3339Nano, string(b))
	if err != nil {
		return fmt.Errorf("parse time: %w", err)
	}
	*t = TimeOf(v)
	return nil
}
