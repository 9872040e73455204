package upload

import (
	"context"
	"sync"
	"sync/atomic"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/blob"
)

// live is an upload in memory: see the package comment.
type live struct {
	id   drive.UploadID
	of   *table
	turn chan struct{} // holds one token; whoever takes it may change the state
	last atomic.Int64  // drive.Time of the last bytes that this process saw
	used drive.Time    // when it was last let go; guarded by table.mu

	growing sync.Mutex // held while the reservation grows: one step serves all parts that wait for room

	mu         sync.Mutex
	users      int // requests that hold this live; guarded by table.mu
	loaded     bool
	known      bool // somebody has loaded it, or made a row its own, since this live was made
	row        Row
	permit     permit            // of a guest whose upload it is
	parts      map[int]blob.Part // of an active upload
	tails      map[int]blob.Part // beginnings of parts
	received   drive.ByteSize    // sum of parts and tails
	accepts    int               // parts accepted or dropped so far: tells whether a look at the journal is out of date
	incoming   drive.ByteSize    // sum of the parts being written
	limit      drive.ByteSize    // where the size is not known: what received and incoming may come to without a further grant
	promised   drive.ByteSize    // its share of what the disk is promised for
	promisedTo drive.AccountID   // whose share it is
	refused    int64             // the staging refuses this gen and smaller ones; stays when the row is forgotten
	suspect    bool              // parts must be verified first
	shut       door              // the holder of the turn shuts and opens it
	why        error             // what a part is told that comes while the door is refusing
	writers    map[int]*partWriter
	quiet      chan struct{}  // closed when the last writer has gone; nil while nobody waits
	seal       *sealing       // running or ended seal
	follower   *follower      // hashes for declared digests; nil: none
	followed   drive.ByteSize // how far the follower is

	appending *appending // who fills it by offset; nil: nobody
	tail      *blob.Tail // hashes of the tail of part tailN, as far as this process has taken it in; nil: to be read
	tailN     int
}

// door says whether parts may begin.
type door uint8

const (
	wide     door = iota // they may
	waiting              // a part waits for the turn, and then for what the upload has become
	refusing             // it is refused at once
)

// ready reports whether parts may begin as things stand. l.mu is held.
func (l *live) ready() bool {
	return l.loaded && l.row.State == Active && l.shut == wide && l.refused < l.row.Gen && !l.suspect
}

// partWriter is a request that writes a part.
type partWriter struct {
	cancel context.CancelFunc
	done   chan struct{}
	size   drive.ByteSize // its share of live.incoming
}

// keep reports whether a live that nobody holds is still worth its memory.
func (l *live) keep() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded && l.row.State == Active
}

// takeTurn waits until nobody else changes the upload's state.
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

// inTurn runs act while nobody else in this process changes the upload's state, and again when
// another instance was first: act loads the row, which is the new one then.
func inTurn(ctx context.Context, t *table, id drive.UploadID, act func(l *live) (outcome, error)) error {
	l := t.enter(id)
	defer t.leave(l)
	if err := l.takeTurn(ctx); err != nil {
		return err
	}
	defer l.giveTurn()
	return attempts(func() (outcome, error) { return act(l) })
}

func (l *live) giveTurn() {
	l.of.order.give(l.id, rankTurn)
	l.turn <- struct{}{}
}

// adoptNew makes a row that was just begun what the live holds, and reports whether that is so now.
// The row was visible from its commit on: whoever has found it meanwhile may have sent parts,
// parked it or ended it, and what they made of the live stays. The caller has entered the live
// before the commit.
func (l *live) adoptNew(row Row) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.known {
		l.adoptLocked(row, blob.Staged{})
	}
	return l.loaded && l.row.Gen == row.Gen && l.row.State == row.State
}

// adopt makes row and staged what the live holds. No part is on its way.
func (l *live) adopt(row Row, staged blob.Staged) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.adoptLocked(row, staged)
}

func (l *live) adoptIf(accepts int, row Row, staged blob.Staged) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.accepts != accepts {
		return false
	}
	l.adoptLocked(row, staged)
	if l.of.shared { // what is reserved and not used is for those who have asked for it
		l.limit = min(l.received, row.Reserved)
	}
	return true
}

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

// setRowLocked takes over a row that was just written or read. What is promised of the disk follows
// from it.
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

// promiseLocked brings the live's share of the disk budget up to date: what is reserved and has not
// arrived.
func (l *live) promiseLocked() {
	promise := drive.ByteSize(0)
	if l.row.State == Active {
		promise = max(0, l.row.Reserved-l.received)
	}
	if l.promisedTo != l.row.Account { // it was not known, or is not any more
		l.of.disk.Add(l.promisedTo, -l.promised)
		l.promised, l.promisedTo = 0, l.row.Account
	}
	l.of.disk.Add(l.promisedTo, promise-l.promised)
	l.promised = promise
}

// setRow takes over a row that was just written. An active one whose parts are not known, because
// it was parked before or was forgotten meanwhile, is left to adopt or to the next request.
func (l *live) setRow(row Row) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if row.State == Active && l.parts == nil {
		l.forgetLocked()
		return
	}
	l.setRowLocked(row)
}

// forget drops what is in memory, after an outcome that is not known: the next request reads the
// truth.
func (l *live) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLocked()
}

func (l *live) forgetLocked() {
	l.setRowLocked(Row{})
	l.unfollowLocked()
	l.loaded = false
}

// refuse notes that the staging refuses gen: the next part needs a greater one.
func (l *live) refuse(gen int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused = max(l.refused, gen)
}

// touch notes that bytes arrived.
func (l *live) touch(now drive.Time) { l.last.Store(int64(now)) }

// pause lets new parts wait, and reports whether any is being written. The caller holds the turn.
func (l *live) pause() (busy bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut = waiting
	return len(l.writers) > 0
}

// close refuses new parts. The caller holds the turn.
func (l *live) close(why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, l.why = refusing, why
}

// open lets parts begin again.
func (l *live) open() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.shut, l.why = wide, nil
}

// drain waits until no part is being written. With cancel it ends them first. pause or close was
// called before.
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

// beginPart registers a writer of part n, or returns the one that must go first.
func (l *live) beginPart(n int, size drive.ByteSize, w *partWriter) (before *partWriter) {
	if before = l.writers[n]; before == nil {
		l.of.order.take(l.id, rankWriting)
		l.writers[n] = w
		w.size = size
		l.incoming += size
	}
	return before
}

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
