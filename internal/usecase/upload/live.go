package upload

import (
	"context"
	"sync"
	"sync/atomic"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/blob"
)

// liveUpload is the in-memory state of an upload: see the package comment.
type liveUpload struct {
	id        drive.UploadID
	table     *liveTable
	stateLock chan struct{} // the state lock: holds one token, and the receiver of the token may change the state
	last      atomic.Int64  // drive.Time of the last bytes received by this process
	used      drive.Time    // time of the last release; guarded by liveTable.mu

	growing sync.Mutex // held while the reservation grows: one step serves all waiting parts

	mu          sync.Mutex
	refs        int  // references; guarded by liveTable.mu
	loaded      bool // row, parts and the fields below are cached; false after an invalidation
	initialized bool // a row was set since this liveUpload was created
	row         Row
	permit      permit              // right of the guest who sends the upload
	parts       map[int]blob.Part   // received parts of an active upload, by number
	tails       map[int]blob.Part   // unfinished parts, by number
	received    drive.ByteSize      // bytes in parts and tails
	accepts     int                 // parts accepted or dropped so far: detects a stale read of the journal
	incoming    drive.ByteSize      // bytes of the parts being written
	limit       drive.ByteSize      // unknown size: most bytes received and incoming without a further grant
	promised    drive.ByteSize      // share of the promised disk space
	promisedTo  drive.AccountID     // account of that share
	fenced      int64               // the staging refuses gens up to this one; survives invalidation
	suspect     bool                // parts must be verified first
	admission   admission           // set by the holder of the state lock
	refusal     error               // error for parts while admission is admitRefuse
	writers     map[int]*partWriter // running writers by part number
	drained     chan struct{}       // closed when the last writer ends; nil: nobody waits
	seal        *sealRun            // the latest seal, running or ended; nil: none
	hasher      *prefixHasher       // for declared digests other than BLAKE3; nil: none
	hashed      drive.ByteSize      // bytes hashed by hasher

	appending *appendLock // who fills the upload by offset; nil: nobody
	tail      *blob.Tail  // hash state of the tail of part tailN; nil: the tail must be read
	tailN     int
}

// admission says whether new parts may begin.
type admission uint8

const (
	admitOpen   admission = iota // parts may begin
	admitWait                    // parts wait for the state lock, then check the state again
	admitRefuse                  // parts fail at once with refusal
)

// ready reports whether a part may begin by what is cached: the row is loaded and active, no state
// change keeps parts out, the staging accepts the row's gen, and no parts wait for verification.
// The caller holds l.mu.
func (l *liveUpload) ready() bool {
	return l.loaded && l.row.State == Active && l.admission == admitOpen && l.fenced < l.row.Gen && !l.suspect
}

// partWriter is a request that writes a part. A later request for the part cancels it and waits for
// done.
type partWriter struct {
	cancel context.CancelFunc // ends the request
	done   chan struct{}      // closed when the request has ended
	size   drive.ByteSize     // share of liveUpload.incoming
}

// keepCached reports whether the upload stays cached while no request uses it: it is loaded and
// active.
func (l *liveUpload) keepCached() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded && l.row.State == Active
}

// lockState acquires the state lock, which serializes changes of the upload within this process. It
// returns InProgress if ctx ends first. On success the caller must call unlockState. The caller
// must not hold a lock that locks.go lists after the state lock.
func (l *liveUpload) lockState(ctx context.Context) error {
	l.table.order.acquire(l.id, rankState)
	select {
	case <-l.stateLock:
		return nil
	case <-ctx.Done():
		l.table.order.release(l.id, rankState)
		return drive.Wrap(ctx.Err(), drive.InProgress, "retry_after", 1)
	}
}

// withStateLock runs act under the state lock of an upload, and again if act returns retry because
// a concurrent change won. act must load the row itself. It returns errBusy after maxAttempts, and
// InProgress if ctx ends before the lock is acquired.
func withStateLock(ctx context.Context, t *liveTable, id drive.UploadID, act func(l *liveUpload) (outcome, error)) error {
	l := t.acquire(id)
	defer t.release(l)
	if err := l.lockState(ctx); err != nil {
		return err
	}
	defer l.unlockState()
	return withRetry(func() (outcome, error) { return act(l) })
}

// unlockState releases the state lock.
func (l *liveUpload) unlockState() {
	l.table.order.release(l.id, rankState)
	l.stateLock <- struct{}{}
}

// setNew caches the row of a new upload, unless a request that found the row after its commit has
// already set a later state. It reports whether row is the cached state now. The caller acquired l
// before the commit.
func (l *liveUpload) setNew(row Row) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.initialized {
		l.setStagedLocked(row, blob.Staged{})
	}
	return l.loaded && l.row.Gen == row.Gen && l.row.State == row.State
}

// setStaged caches row and its staged parts. No part may be in flight.
func (l *liveUpload) setStaged(row Row, staged blob.Staged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.setStagedLocked(row, staged)
}

// setStagedIf sets row and staged state and returns true, unless a part was accepted or dropped
// since accepts was read; then it changes nothing and returns false.
func (l *liveUpload) setStagedIf(accepts int, row Row, staged blob.Staged) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepts != accepts {
		return false
	}
	l.setStagedLocked(row, staged)
	if l.table.shared { // the unused reservation belongs to the instance that was granted it
		l.limit = min(l.received, row.Reserved)
	}
	return true
}

// setStagedLocked caches row and its staged parts. The caller holds l.mu.
func (l *liveUpload) setStagedLocked(row Row, staged blob.Staged) {
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
	l.resetHasherLocked()
	l.setRowLocked(row)
	l.limit = row.Reserved
}

// setRowLocked caches a row that was just written or read, and updates the promised disk space.
func (l *liveUpload) setRowLocked(row Row) {
	row.placed, row.conditions = nil, conditions{}
	l.row, l.loaded, l.initialized = row, true, true
	if row.State != Active {
		l.parts, l.tails, l.tail, l.received = nil, nil, nil, 0
	}
	if !l.table.shared {
		l.limit = row.Reserved
	}
	l.promiseLocked()
}

// promiseLocked updates the promised disk space: the reserved bytes that have not been received.
func (l *liveUpload) promiseLocked() {
	promise := drive.ByteSize(0)
	if l.row.State == Active {
		promise = max(0, l.row.Reserved-l.received)
	}
	if l.promisedTo != l.row.Account { // there was no account, or there is none any more
		l.table.disk.Adjust(l.promisedTo, -l.promised)
		l.promised, l.promisedTo = 0, l.row.Account
	}
	l.table.disk.Adjust(l.promisedTo, promise-l.promised)
	l.promised = promise
}

// setRow caches a row that was just written. If the row is active but the parts of the upload are
// not cached, it invalidates the cache instead.
func (l *liveUpload) setRow(row Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if row.State == Active && l.parts == nil {
		l.invalidateLocked()
		return
	}
	l.setRowLocked(row)
}

// invalidate drops the cached row and parts, for example after an unknown outcome. The next request
// reads them again.
func (l *liveUpload) invalidate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.invalidateLocked()
}

// invalidateLocked drops the cached row and parts, so that the next request reads them again. The
// caller holds l.mu.
func (l *liveUpload) invalidateLocked() {
	l.setRowLocked(Row{})
	l.resetHasherLocked()
	l.loaded = false
}

// noteFenced records that the staging refuses gen: the next part needs a greater one.
func (l *liveUpload) noteFenced(gen int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fenced = max(l.fenced, gen)
}

// touch records in memory that bytes arrived at the time now. It does not postpone a timer.
func (l *liveUpload) touch(now drive.Time) { l.last.Store(int64(now)) }

// pauseParts makes new parts wait, and reports whether any part is being written. The caller holds
// the state lock and must call admitParts.
func (l *liveUpload) pauseParts() (busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admission = admitWait
	return len(l.writers) > 0
}

// refuseParts makes new parts fail with why. The caller holds the state lock and must call
// admitParts.
func (l *liveUpload) refuseParts(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admission, l.refusal = admitRefuse, why
}

// admitParts lets parts begin again after a state change had kept them out.
func (l *liveUpload) admitParts() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.admission, l.refusal = admitOpen, nil
}

// drain waits until no part is being written; InProgress if ctx ends first. With cancel it ends the
// writers. The caller has called pauseParts or refuseParts.
func (l *liveUpload) drain(ctx context.Context, cancel bool) error {
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
	if l.drained == nil {
		l.drained = make(chan struct{})
	}
	quiet := l.drained
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
func (l *liveUpload) registerWriter(n int, size drive.ByteSize, w *partWriter) (before *partWriter) {
	if before = l.writers[n]; before == nil {
		l.table.order.acquire(l.id, rankWriting)
		l.writers[n] = w
		w.size = size
		l.incoming += size
	}
	return before
}

// unregisterWriter ends the registration of w and wakes those that wait for it.
func (l *liveUpload) unregisterWriter(n int, w *partWriter) {
	l.table.order.release(l.id, rankWriting)
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.writers, n)
	l.incoming -= w.size
	close(w.done)
	if len(l.writers) == 0 && l.drained != nil {
		close(l.drained)
		l.drained = nil
	}
}
