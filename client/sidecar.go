package client

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"
)

// sidecar remembers beside a partial file what is in it.
type sidecar struct {
	root *os.Root
	name string

	ETag     string `json:"etag"`
	Size     int64  `json:"size"`
	PartSize int64  `json:"part_size"`
	Done     []Span `json:"done"` // numbers of ranges

	mu    sync.Mutex
	saved time.Time
	there bool
}

// saveEvery is how much work a killed download may lose.
const saveEvery = time.Second

// load lays out on b what an earlier run fetched of the same content, and reports whether there was
// any.
func (s *sidecar) load(b *board) bool {
	raw, err := s.root.ReadFile(s.name)
	s.there = !errors.Is(err, fs.ErrNotExist)
	var old sidecar
	if err != nil || json.Unmarshal(raw, &old) != nil {
		return false
	}
	if s.ETag == "" || old.ETag != s.ETag || old.Size != s.Size || old.PartSize != s.PartSize {
		return false
	}
	for _, span := range old.Done {
		for n := max(0, span[0]); n <= span[1] && n < int64(len(b.parts)); n++ {
			b.sent(n)
		}
	}
	return true
}

// saveNowAndThen is save, but not more often than saveEvery; a file that is fetched faster than
// that never gets a sidecar.
func (s *sidecar) saveNowAndThen(b *board) error {
	s.mu.Lock()
	if s.saved.IsZero() {
		s.saved = time.Now()
	}
	due := time.Since(s.saved) >= saveEvery
	s.mu.Unlock()
	if !due {
		return nil
	}
	return s.save(b)
}

// save writes the sidecar, whole or not at all.
func (s *sidecar) save(b *board) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = time.Now()
	s.Done = b.spans()
	if s.ETag == "" || len(s.Done) == 0 {
		return nil
	}
	raw, err := json.Marshal(s)
	if err != nil {
		return err
	}
	s.there = true
	if err := s.root.WriteFile(s.name+"~", raw, 0o600); err != nil {
		return err
	}
	return s.root.Rename(s.name+"~", s.name)
}

func (s *sidecar) remove() error {
	_ = s.root.Remove(s.name + "~") // of a process that was killed while it saved
	if !s.there {
		return nil
	}
	if err := s.root.Remove(s.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
