package upload

import "smartdrive/internal/base/drive"

// Lives returns how many uploads are in memory.
func (s *Sessions) Lives() int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.all)
}

// Promised returns how many bytes of the disk are promised.
func (s *Sessions) Promised() int64 {
	total, accounts := s.disk.Promised()
	if total == 0 && accounts > 0 {
		return -1 // the shares of accounts do not add up
	}
	return int64(total)
}

// Settle waits until nothing runs in the background.
func (s *Sessions) Settle() { s.work.all.Wait() }

// WaitForNoContents makes transactions late that find their contents not durable yet.
func (s *Sessions) WaitForNoContents() { s.smallFiles.committer.syncWait = 0 }

// Forgotten reports whether nothing is known of an upload, though somebody holds it.
func (s *Sessions) Forgotten(id drive.UploadID) bool {
	l := s.table.acquire(id)
	defer s.table.release(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.loaded
}
