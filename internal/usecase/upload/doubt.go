package upload

import (
	"sync"
	"time"

	"smartdrive/internal/base/drive"
)

// lostAfter is for how long the bytes of an upload that is being sealed must not be found before
// they are lost. While another instance has a store put the parts together they may be in neither
// place: versitygw 1.8 even answers that the content is there, and copies still. It is longer than
// a store takes that copies 100 GiB.
const lostAfter = 15 * time.Minute

// misses remembers since when the bytes of uploads were not found, each instance for itself.
type misses struct {
	mu    sync.Mutex
	since map[drive.UploadID]drive.Time
}

// lost notes that the bytes of an upload were not found, and reports whether that has been so for
// long.
func (m *misses) lost(id drive.UploadID, now drive.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	since, known := m.since[id]
	if !known {
		if m.since == nil {
			m.since = map[drive.UploadID]drive.Time{}
		}
		m.since[id] = now
		return false
	}
	return now.Sub(since) >= lostAfter
}

// forget notes that they were found, or that nobody looks for them any more.
func (m *misses) forget(id drive.UploadID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.since, id)
}
