package upload

import "example.org/smartdrive/internal/base/drive"

// Lives returns how many uploads are in memory.
func (s *Sessions) Lives() int {
	s.table.mu.Lock()
	defer s.table.mu.Unlock()
	return len(s.table.all)
}

// Promised returns how many bytes of the disk are promised.
func (s *Sessions) Promised() int64 {
	total, accounts := s.disk.Total()
	if total == 0 && accounts > 0 {
		return -1 // the shares of accounts do not add up
	}
	return int64(total)
}

// Settle waits until no background work runs.
func (s *Sessions) Settle() { s.work.all.Wait() }

// WaitForNoContents makes every transaction with contents that are not durable yet run twice.
func (s *Sessions) WaitForNoContents() { s.smallFiles.committer.syncWait = 0 }

// Forgotten reports whether the cached state of an upload is invalidated.
func (s *Sessions) Forgotten(id drive.UploadID) bool {
	l := s.table.acquire(id)
	defer s.table.release(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.loaded
}
