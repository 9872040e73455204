package upload

import (
	"math/bits"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// Several instances may share one database and one staging. The row decides, by compare-and-set on
// its gen, and so does the journal, by refusing a fenced gen. Cached state may be stale and is
// corrected by one of the two:
//
//	row, before a state change         read again: one read per change, none per part
//	row, for a part                    the journal refuses its gen, then the row is read again
//	parts                              never confirmed from the cache: the staging returns PartExistsError or accepts them
//	reservation (unknown size)         each instance uses only what it was granted itself
//	time of the last bytes             from the journal and its running writes; clocks are only compared with themselves
//
// A staging used by one process only (Caps.Shared is unset) skips all of this.

// unusedIdles is the number of idle times after which an unused active upload leaves the cache of
// an instance.
const unusedIdles = 3

// readableParts reports whether parts can be read before they are sealed. The answer may change
// while contents are migrated.
func readableParts(staging blob.Staging) bool { return staging.Caps().ReadableParts }

// leastPartSize returns the smallest part size that a staging accepts, a power of two.
func leastPartSize(c blob.Caps) drive.ByteSize {
	if c.MinPart <= MinPartSize {
		return MinPartSize
	}
	return 1 << bits.Len64(uint64(c.MinPart-1))
}

// refreshRow replaces the cached row by a newly read one. If gen or state differ, or nothing is
// cached, it invalidates the cache and returns false.
func (l *liveUpload) refreshRow(row Row) (Row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.loaded:
		return row, false
	case l.row.Gen != row.Gen || l.row.State != row.State:
		l.invalidateLocked()
		return row, false
	}
	row.Resumes = min(row.Resumes, l.row.Resumes) // a part received here has reset it
	l.setRowLocked(row)
	return row, true
}

// addRemotePart caches a part or tail that another instance received, and raises the limit of this
// instance's grant by its size. It does nothing if the upload is not cached.
func (l *liveUpload) addRemotePart(part blob.Part, tail bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts == nil {
		return
	}
	before := l.received
	l.putPartLocked(part, tail)
	l.limit += l.received - before
	l.promiseLocked()
}

// lastActive returns when the upload was last active, at most now. now is the current row time.
func (s *Sessions) lastActive(l *liveUpload, row Row, staged blob.Staged, now drive.Time) drive.Time {
	return min(now, s.lastSeen(l, row, staged, now))
}

// lastSeen returns when the upload was last active, in row time. It may exceed now if a clock ran
// ahead.
func (s *Sessions) lastSeen(l *liveUpload, row Row, staged blob.Staged, now drive.Time) drive.Time {
	return max(row.Active, now.Add(-s.clocks.now().Sub(drive.Time(l.last.Load()))), s.lastPart(staged, now))
}

// lastPart returns when the last part was journaled, in row time; zero if there is none or the
// journal was lost.
func (s *Sessions) lastPart(staged blob.Staged, now drive.Time) drive.Time {
	if staged.Last == 0 {
		return 0
	}
	its := staged.Now
	if its == 0 {
		its = s.clocks.now()
	}
	return now.Add(-its.Sub(staged.Last))
}
