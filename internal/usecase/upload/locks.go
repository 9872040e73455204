package upload

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"smartdrive/internal/base/drive"
)

// The locks of an upload, in the only order in which a request takes them. Whoever holds one of
// them takes none that stands above it.
//
//	table.mu    finds the live
//	appending   takeOver      fills the upload by offset, or keeps those away who do; held while a body comes
//	turn        takeTurn      changes its state; held over transactions and syncs of the staging
//	writing     beginPart     writes a part; several parts are written at once, and the holder of the turn waits for all (drain)
//	growing     grow          enlarges the reservation: one step serves all parts that wait for room
//	follower.mu               hashes what has arrived
//	live.mu                   guards the fields; never held over I/O
//
// Of several uploads: partial ones in the order of their ids, and their final one, which is
// younger, after them. All locks of one come before those of the next. A seal, a follower and a
// join run in goroutines of their own and begin with nothing.
//
// The tests check appending to growing: see Options.OutOfOrder. The mutexes around them are held
// for some lines only.
type rank uint8

const (
	rankAppending rank = iota + 1
	rankTurn
	rankWriting
	rankGrowing
)

func (r rank) String() string {
	return [...]string{rankAppending: "appending", rankTurn: "turn", rankWriting: "writing", rankGrowing: "growing"}[r]
}

// heldLock is a lock that a goroutine has.
type heldLock struct {
	id   drive.UploadID
	rank rank
}

// before reports whether a is taken before b: of the same upload several parts may be written.
func (a heldLock) before(b heldLock) bool {
	if a.id != b.id {
		return bytes.Compare(a.id[:], b.id[:]) < 0
	}
	return a.rank < b.rank || a.rank == b.rank && a.rank == rankWriting
}

// lockOrder checks the order. A nil one checks nothing, and costs nothing.
type lockOrder struct {
	report func(string)
	mu     sync.Mutex
	held   map[uint64][]heldLock // by goroutine
}

// newLockOrder returns a check that reports; nil: nobody is told.
func newLockOrder(report func(string)) *lockOrder {
	if report == nil {
		return nil
	}
	return &lockOrder{report: report, held: map[uint64][]heldLock{}}
}

// take notes that the calling goroutine is about to take a lock, which it may have to wait for.
func (o *lockOrder) take(id drive.UploadID, r rank) {
	if o == nil {
		return
	}
	me, next := goroutine(), heldLock{id, r}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, have := range o.held[me] {
		if !have.before(next) {
			o.report(fmt.Sprintf("%s of upload %s is taken by who holds %s of upload %s", r, id, have.rank, have.id))
		}
	}
	o.held[me] = append(o.held[me], next)
}

// give notes that the calling goroutine has given a lock back, or has not got it.
func (o *lockOrder) give(id drive.UploadID, r rank) {
	if o == nil {
		return
	}
	me := goroutine()
	o.mu.Lock()
	defer o.mu.Unlock()
	have := o.held[me]
	i := slices.Index(have, heldLock{id, r})
	if i < 0 {
		o.report(fmt.Sprintf("%s of upload %s is given back by who does not hold it", r, id))
		return
	}
	if have = slices.Delete(have, i, i+1); len(have) == 0 {
		delete(o.held, me)
		return
	}
	o.held[me] = have
}

// goroutine returns the number of the calling goroutine, which only its stack says: "goroutine 17
// [running]:".
func goroutine() uint64 {
	var buf [64]byte
	_, rest, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" "))
	number, _, _ := bytes.Cut(rest, []byte(" "))
	n, _ := strconv.ParseUint(string(number), 10, 64)
	return n
}
