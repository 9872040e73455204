package upload

import (
	"math/bits"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// Several instances over one database and one staging. What decides is the row, by compare-and-set
// on its gen, and the journal, by refusing a gen that was closed; what this process remembers is a
// guess that one of them corrects:
//
//	a row, before a change of state    read again; one more read a change, none a part
//	a row, for a part                  the journal refuses its gen: then the row is read again
//	the parts                          a part is never vouched for from memory: the staging says ThereError, or takes it
//	the reservation (unknown size)     each instance uses up only what it has been granted itself
//	when bytes last came               the journal and the writes that run elsewhere; each clock is compared with itself only
//
// A staging of this process alone (Caps.Shared is not set) is spared all of that.

// unusedIdles is after how many idle times an active upload that nobody asks for here leaves the
// memory.
const unusedIdles = 3

// readableParts reports whether parts can be read before they are sealed. While contents move to
// another place that may cease to be so.
func readableParts(staging blob.Staging) bool { return staging.Caps().ReadableParts }

// leastPartSize is the smallest part size that a staging takes: a power of two.
func leastPartSize(c blob.Caps) drive.ByteSize {
	if c.MinPart <= MinPartSize {
		return MinPartSize
	}
	return 1 << bits.Len64(uint64(c.MinPart-1))
}

// renew takes over a row that was read again, unless the upload has moved on since the one that the
// live holds; then the live holds nothing any more.
func (l *live) renew(row Row) (Row, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.loaded:
		return row, false
	case l.row.Gen != row.Gen || l.row.State != row.State:
		l.forgetLocked()
		return row, false
	}
	row.Resumes = min(row.Resumes, l.row.Resumes) // a part that came here has set it back
	l.setRowLocked(row)
	return row, true
}

// learn adds a part or a tail that another instance has brought, with the room that it was granted.
func (l *live) learn(part blob.Part, tail bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parts == nil {
		return
	}
	before := l.received
	l.enterLocked(part, tail)
	l.limit += l.received - before
	l.promiseLocked()
}

// lastActive is when an upload was last active, by the clock that rows go by, which says now.
func (s *Sessions) lastActive(l *live, row Row, staged blob.Staged, now drive.Time) drive.Time {
	return min(now, s.lastSeen(l, row, staged, now))
}

// lastSeen is lastActive as it was noted: later than now where a clock was ahead.
func (s *Sessions) lastSeen(l *live, row Row, staged blob.Staged, now drive.Time) drive.Time {
	return max(row.Active, now.Add(-s.clocks.now().Sub(drive.Time(l.last.Load()))), s.lastPart(staged, now))
}

// lastPart is when the last part came; zero: none has, or the journal was lost and does not know.
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
