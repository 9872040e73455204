package blob

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Mark identifies the installation that owns the stored bytes. The database holds a mark too. The
// serve command compares both and refuses to start before anything is deleted if the database is
// older than the blobs, the directory or bucket belongs to another installation, or a mount is
// missing.
type Mark struct {
	ID         string `json:"id"`         // of the installation, never changes
	Generation int64  `json:"generation"` // raised at each start
}

// MarkName is the file name or key suffix of the stored mark.
const MarkName = "installation"

// ParseMark decodes the output of Mark.Encode. It fails if the JSON is invalid, the ID is empty or
// the generation is negative.
func ParseMark(b []byte) (m Mark, err error) {
	if err := json.Unmarshal(b, &m); err != nil || m.ID == "" || m.Generation < 0 {
		return Mark{}, errors.Join(errors.New("installation mark is damaged"), err)
	}
	return m, nil
}

// Encode returns m as one line of JSON with a final newline.
func (m Mark) Encode() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode installation mark: %w", err)
	}
	return append(b, '\n'), nil
}
