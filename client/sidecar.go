package client

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// sidecar is the JSON file beside a partial file that records which ranges of which content are
// complete.
type sidecar struct {
	root *os.Root
	name string

	ETag     string `json:"etag"`
	Size     int64  `json:"size"`
	PartSize int64  `json:"part_size"`
	Done     []Span `json:"done"` // ranges of part numbers

	mu      sync.Mutex
	savedAt time.Time
	// exists tells that the file is on the disk.
	exists bool
}

// saveInterval is the least time between two saves, and so the work that a killed download may
// lose.
const saveInterval = time.Second

// load marks the parts that an earlier run fetched as done, if the sidecar on disk describes the
// same content and part size. It reports false if it does not.
func (s *sidecar) load(b *partTracker) bool {
	raw, err := s.root.ReadFile(s.name)
	s.exists = !errors.Is(err, fs.ErrNotExist)
	var old sidecar
	if err != nil || json.Unmarshal(raw, &old) != nil {
		return false
	}
	if s.ETag == "" || old.ETag != s.ETag || old.Size != s.Size || old.PartSize != s.PartSize {
		return false
	}
	for _, span := range old.Done {
		for n := max(0, span[0]); n <= span[1] && n < int64(len(b.parts)); n++ {
			b.markDone(n)
		}
	}
	return true
}

// saveIfDue saves the sidecar if the last save, or the first call, was at least saveInterval ago. A
// download shorter than that writes no sidecar. It acquires s.mu and fails with an error of the
// file system.
func (s *sidecar) saveIfDue(b *partTracker) error {
	s.mu.Lock()
	if s.savedAt.IsZero() {
		s.savedAt = time.Now()
	}
	due := time.Since(s.savedAt) >= saveInterval
	s.mu.Unlock()
	if !due {
		return nil
	}
	return s.save(b)
}

// save writes the sidecar atomically. It writes nothing if no part is done or the content has no
// ETag. It acquires mu and fails with an error of the file system.
func (s *sidecar) save(b *partTracker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.savedAt = time.Now()
	s.Done = b.doneSpans()
	if s.ETag == "" || len(s.Done) == 0 {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	s.exists = true
	if err := s.root.WriteFile(s.name+"~", raw, 0o600); err != nil {
		return err
	}
	return s.root.Rename(s.name+"~", s.name)
}

// remove deletes the sidecar and an unfinished save of it; a missing file is not an error.
func (s *sidecar) remove() error {
	_ = s.root.Remove(s.name + "~") // left by a process that was killed while saving
	if !s.exists {
		return nil
	}
	if err := s.root.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
