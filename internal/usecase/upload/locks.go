package upload

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"example.org/smartdrive/internal/base/drive"
)

// lockRank orders the locks of an upload. A request acquires them only in this order, and never
// acquires a lock above one that it holds:
//
//	liveTable.mu               finds the liveUpload
//	appending   lockAppend     fills the upload by offset, or keeps other appends out; held while a body arrives
//	turn        lockState      changes the upload's state; held over transactions and syncs of the staging
//	writing     registerWriter writes a part; several parts may be written at once, and the holder of the state lock drains them
//	growing     grow           enlarges the reservation; one step serves all parts that wait for room
//	prefixHasher.mu            hashes received bytes
//	liveUpload.mu              guards the fields; never held over I/O
//
// Across uploads: all locks of one upload come before those of the next. Partial uploads are locked
// in the order of their ids, their final upload after them. Seals, hashers and mergers run in
// goroutines of their own and start without locks.
//
// Tests check the order from appending to growing (Options.OnLockOrderViolation). The mutexes above
// and below are held for a few lines only.
type lockRank uint8

const (
	rankAppending lockRank = iota + 1
	rankState
	rankWriting
	rankGrowing
)

// String returns the name of the rank in reports of violations. It panics for a number that is not
// a rank.
func (r lockRank) String() string {
	return [...]string{rankAppending: "appending", rankState: "turn", rankWriting: "writing", rankGrowing: "growing"}[r]
}

// heldLock is a lock that a goroutine holds or waits for.
type heldLock struct {
	id   drive.UploadID
	rank lockRank
}

// before reports whether b may be acquired while a is held. Several parts of one upload may be
// written at once.
func (a heldLock) before(b heldLock) bool {
	if a.id != b.id {
		return bytes.Compare(a.id[:], b.id[:]) < 0
	}
	return a.rank < b.rank || a.rank == b.rank && a.rank == rankWriting
}

// lockOrder reports violations of the lock order to report. A nil lockOrder does nothing.
type lockOrder struct {
	report func(string)
	mu     sync.Mutex
	held   map[uint64][]heldLock // by goroutine number
}

// newLockOrder returns a lockOrder that calls report on each violation; nil if report is nil.
func newLockOrder(report func(string)) *lockOrder {
	if report == nil {
		return nil
	}
	return &lockOrder{report: report, held: map[uint64][]heldLock{}}
}

// acquire records that the calling goroutine is about to acquire a lock, and reports a violation of
// the order.
func (o *lockOrder) acquire(id drive.UploadID, r lockRank) {
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

// release records that the calling goroutine has released a lock or failed to acquire it. It
// reports a lock that the goroutine does not hold. A nil o does nothing.
func (o *lockOrder) release(id drive.UploadID, r lockRank) {
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

// goroutine returns the calling goroutine's number, parsed from its stack header "goroutine 17
// [running]:".
func goroutine() uint64 {
	var buf [64]byte
	_, rest, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" "))
	number, _, _ := bytes.Cut(rest, []byte(" "))
	n, _ := strconv.ParseUint(string(number), 10, 64)
	return n
}
