package admin

import (
	"bytes"
	"encoding/json"

	"example.org/smartdrive/internal/base/drive"
)

// Total is an account's storage limit in a request: absent (the zero value), unlimited (null in
// JSON) or a number of bytes.
type Total struct {
	Given bool
	Bytes *drive.ByteSize // nil: unlimited
}

// Unlimited returns the Total without a limit.
func Unlimited() Total { return Total{Given: true} }

// Limit returns the Total of n bytes.
func Limit(n drive.ByteSize) Total { return Total{Given: true, Bytes: &n} }

// maxTotal keeps sums of ledger columns far below the maximum of int64.
const maxTotal = drive.ByteSize(1) << 60

// UnmarshalJSON sets t from an integer, or from null, which is unlimited. encoding/json does not
// call it for an absent member, so Given stays false. It returns BadRequest for other values.
func (t *Total) UnmarshalJSON(b []byte) error {
	if bytes.Equal(b, []byte("null")) {
		*t = Unlimited()
		return nil
	}
	var n drive.ByteSize
	if err := json.Unmarshal(b, (*int64)(&n)); err != nil {
		return drive.Wrap(err, drive.BadRequest, "field", "total", "reason", string(drive.Malformed), "expected", "integer or null")
	}
	*t = Limit(n)
	return nil
}

// check returns BadRequest if t is negative or above maxTotal. Unlimited is valid.
func (t Total) check() error {
	if t.Bytes != nil && (*t.Bytes < 0 || *t.Bytes > maxTotal) {
		return drive.BadField("total", drive.OutOfRange, "min", 0, "max", int64(maxTotal))
	}
	return nil
}

// or returns t, or def if t is absent.
func (t Total) or(def Total) Total {
	if t.Given {
		return t
	}
	return def
}
