package upload

import (
	"sync"
	"time"

	"example.org/smartdrive/internal/base/drive"
)

// lostAfter is how long the bytes of a sealing upload must be missing before they count as lost.
// While another instance lets a store assemble the parts, they may be in neither place: versitygw
// 1.8 even reports the content while it still copies. The time exceeds that of a store copying 100
// GiB.
const lostAfter = 15 * time.Minute

// missTracker records, for each upload whose bytes this instance did not find, when they were first
// missed. It is safe for concurrent use.
type missTracker struct {
	mu    sync.Mutex
	since map[drive.UploadID]drive.Time
}

// missingTooLong records that an upload's bytes were not found, and reports whether they have been
// missing for lostAfter.
func (m *missTracker) missingTooLong(id drive.UploadID, now drive.Time) bool {
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

// reset deletes the record of an upload, because its bytes were found or are no longer needed.
func (m *missTracker) reset(id drive.UploadID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.since, id)
}
