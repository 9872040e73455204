package upload

import "smartdrive/internal/drive"

// Lives returns how many uploads are in memory.
func (s *Sessions) Lives() int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.all)
}

// Promised returns how many bytes of the disk are promised.
func (s *Sessions) Promised() int64 { return s.disk.promised.Load() }

// Settle waits until nothing runs in the background.
func (s *Sessions) Settle() { s.work.Wait() }

// Forgotten reports whether nothing is known of an upload, though somebody holds it.
func (s *Sessions) Forgotten(id drive.UploadID) bool {
	l := s.table.enter(id)
	defer s.table.leave(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.loaded
}
