package blob

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Mark says whose bytes these are. The database has one too; serve compares them, so that an old
// database beside newer blobs, a foreign place or a missing mount is refused in words before
// anything is deleted.
type Mark struct {
	ID         string `json:"id"`         // of the installation, never changes
	Generation int64  `json:"generation"` // raised at each start
}

// MarkName is what the mark is called where the bytes lie.
const MarkName = "installation"

// ParseMark reads what Encode wrote.
func ParseMark(b []byte) (m Mark, err error) {
	if err := json.Unmarshal(b, &m); err != nil || m.ID == "" || m.Generation < 0 {
		return Mark{}, errors.Join(errors.New("installation mark is damaged"), err)
	}
	return m, nil
}

// Encode returns m as one line.
func (m Mark) Encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode installation mark: %w", err)
	}
	return append(b, '\n'), nil
}
