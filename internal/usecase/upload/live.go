package upload

import (
	"context"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// liveUpload is the in-memory state of an upload: see the package comment.
type live struct {
	id   drive.UploadID
	of   *table
	turn chan struct{} // the state lock: holds one token, and the receiver of the token may change the state
	last atomic.Int64  // drive.Time of the last bytes received by this process
	used drive.Time    // time of the last release; guarded by liveTable.mu

	growing sync.Mutex // held while the reservation grows: one step serves all waiting parts

	mu         sync.Mutex
	users      int // references; guarded by liveTable.mu
	loaded     bool
	known      bool // a row was set since this liveUpload was created
	row        Row
	permit     permit            // right of the guest who sends the upload
	parts      map[int]blob.Part // received parts of an active upload, by number
	tails      map[int]blob.Part // unfinished parts, by number
	received   drive.ByteSize    // bytes in parts and tails
	accepts    int               // parts accepted or dropped so far: detects a stale read of the journal
	incoming   drive.ByteSize    // bytes of the parts being written
	limit      drive.ByteSize    // unknown size: most bytes received and incoming without a further grant
	promised   drive.ByteSize    // share of the promised disk space
	promisedTo drive.AccountID   // account of that share
	refused    int64             // the staging refuses gens up to this one; survives invalidation
	suspect    bool              // parts must be verified first
	shut       door              // set by the holder of the state lock
	why        error             // error for parts while admission is admitRefuse
	writers    map[int]*partWriter
	quiet      chan struct{}  // closed when the last writer ends; nil: nobody waits
	seal       *sealing       // the latest seal, running or ended; nil: none
	follower   *follower      // for declared digests other than BLAKE3; nil: none
	followed   drive.ByteSize // bytes hashed by hasher

	appending *appending // who fills the upload by offset; nil: nobody
	tail      *blob.Tail // hash state of the tail of part tailN; nil: the tail must be read
	tailN     int
}

// admission says whether new parts may begin.
type door uint8

const (
	wide     door = iota // parts may begin
	waiting              // parts wait for the state lock, then check the state again
	refusing             // parts fail at once with refusal
)

// ready reports whether parts may begin. The caller holds l.mu.
func (l *live) ready() bool {
	return l.loaded && l.row.State == Active && l.shut == wide && l.refused < l.row.Gen && !l.suspect
}

// partWriter is a request that writes a part.
type partWriter struct {
	cancel context.CancelFunc // ends the request
	done   chan struct{}      // closed when the request has ended
	size   drive.ByteSize     // share of liveUpload.incoming
}

// keepCached reports whether the upload stays cached without users: it is loaded and active.
func (l *live) keep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded && l.row.State == Active
}

// lockState acquires the state lock; InProgress if ctx ends first.
func (l *live) takeTurn(ctx context.Context) error {
	l.of.order.take(l.id, rankTurn)
	select {
	case <-l.turn:
		return nil
	case <-ctx.Done():
		l.of.order.give(l.id, rankTurn)
		return drive.Wrap(ctx.Err(), drive.InProgress, "retry_after", 1)
	}
}

// withStateLock runs act under the state lock of an upload, and again if act returns retry because
// another instance won. act must load the row itself.
func inTurn(ctx context.Context, t *table, id drive.UploadID, act func(l *live) (outcome, error)) error {
	l := t.enter(id)
	defer t.leave(l)
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	return attempts(func() (outcome, error) { return act(l) })
}

// unlockState releases the state lock.
func (l *live) giveTurn() {
	l.of.order.give(l.id, rankTurn)
	l.turn <- struct{}{}
}

// setNew caches the row of a new upload, unless a request that found the row after its commit has
// already set a later state. It reports whether row is the cached state now. The caller acquired l
// before the commit.
func (l *live) adoptNew(row Row) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		l.adoptLocked(row, blob.Staged{})
	}
	return l.loaded && l.row.Gen == row.Gen && l.row.State == row.State
}

// setStaged caches row and its staged parts. No part may be in flight.
func (l *live) adopt(row Row, staged blob.Staged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adoptLocked(row, staged)
}

// setStagedIf is setStaged unless a part was accepted or dropped since accepts was read; then it
// returns false.
func (l *live) adoptIf(accepts int, row Row, staged blob.Staged) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepts != accepts {
		return false
	}
	l.adoptLocked(row, staged)
	if l.of.shared { // the unused reservation belongs to the instance that was granted it
		l.limit = min(l.received, row.Reserved)
	}
	return true
}

// setStagedLocked is setStaged for a caller that holds l.mu.
func (l *live) adoptLocked(row Row, staged blob.Staged) {
	l.parts, l.received = make(map[int]blob.Part, len(staged.Parts)), 0
	for _, p := range staged.Parts {
		l.parts[p.N] = p
		l.received += p.Size
	}
	l.tails = make(map[int]blob.Part, len(staged.Tails))
	for _, p := range staged.Tails {
		l.tails[p.N] = p
		l.received += p.Size
	}
	l.suspect = staged.Suspect
	l.unfollowLocked()
	l.setRowLocked(row)
	l.limit = row.Reserved
}

// setRowLocked caches a row that was just written or read, and updates the promised disk space.
func (l *live) setRowLocked(row Row) {
	row.placed, row.demand = nil, demand{}
	l.row, l.loaded, l.known = row, true, true
	if row.State != Active {
		l.parts, l.tails, l.tail, l.received = nil, nil, nil, 0
	}
	if !l.of.shared {
		l.limit = row.Reserved
	}
	l.promiseLocked()
}

// promiseLocked updates the promised disk space: the reserved bytes that have not been received.
func (l *live) promiseLocked() {
	promise := drive.ByteSize(0)
	if l.row.State == Active {
		promise = max(0, l.row.Reserved-l.received)
	}
	if l.promisedTo != l.row.Account { // there was no account, or there is none any more
		l.of.disk.Add(l.promisedTo, -l.promised)
		l.promised, l.promisedTo = 0, l.row.Account
	}
	l.of.disk.Add(l.promisedTo, promise-l.promised)
	l.promised = promise
}

// setRow caches a row that was just written. If the upload is active but its parts are not cached,
// it invalidates the cache instead.
func (l *live) setRow(row Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if row.State == Active && l.parts == nil {
		l.forgetLocked()
		return
	}
	l.setRowLocked(row)
}

// invalidate drops the cached row and parts, for example after an unknown outcome. The next request
// reads them again.
func (l *live) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked()
}

// invalidateLocked is invalidate for a caller that holds l.mu.
func (l *live) forgetLocked() {
	l.setRowLocked(Row{})
	l.unfollowLocked()
	l.loaded = false
}

// noteFenced records that the staging refuses gen: the next part needs a greater one.
func (l *live) refuse(gen int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = max(l.refused, gen)
}

// touch records that bytes arrived.
func (l *live) touch(now drive.Time) { l.last.Store(int64(now)) }

// pauseParts makes new parts wait, and reports whether any part is being written. The caller holds
// the state lock and must call admitParts.
func (l *live) pause() (busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = waiting
	return len(l.writers) > 0
}

// refuseParts makes new parts fail with why. The caller holds the state lock and must call
// admitParts.
func (l *live) close(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, l.why = refusing, why
}

// admitParts lets parts begin again.
func (l *live) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, l.why = wide, nil
}

// drain waits until no part is being written; InProgress if ctx ends first. With cancel it ends the
// writers. The caller has called pauseParts or refuseParts.
func (l *live) drain(ctx context.Context, cancel bool) error {
	l.mu.Lock()
	if cancel {
		for _, w := range l.writers {
			w.cancel()
		}
	}
	if len(l.writers) == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.quiet == nil {
		l.quiet = make(chan struct{})
	}
	quiet := l.quiet
	l.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return drive.Wrap(ctx.Err(), drive.InProgress, "retry_after", 1)
	}
}

// registerWriter registers w as the writer of part n, or returns the current writer of n, which
// must end first. The caller holds l.mu.
func (l *live) beginPart(n int, size drive.ByteSize, w *partWriter) (before *partWriter) {
	if before = l.writers[n]; before == nil {
		l.of.order.take(l.id, rankWriting)
		l.writers[n] = w
		w.size = size
		l.incoming += size
	}
	return before
}

// unregisterWriter ends the registration of w and wakes those that wait for it.
func (l *live) endPart(n int, w *partWriter) {
	l.of.order.give(l.id, rankWriting)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writers, n)
	l.incoming -= w.size
	close(w.done)
	if len(l.writers) == 0 && l.quiet != nil {
		close(l.quiet)
		l.quiet = nil
	}
}
