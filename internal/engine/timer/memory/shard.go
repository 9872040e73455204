package memory

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

const (
	chunkLen = 256           // entries; a chunk has 24,576 bytes, a size class of the allocator
	never    = math.MaxInt64 // as a tick
)

// entry is the part of a timer that a touch reads and writes; plan is the rest. Two entries fill a
// cache line. All fields but last change only under the shard's write lock.
type entry struct {
	id     [16]byte
	last   atomic.Int64 // tick; also raised under the read lock
	pos    int32        // index in the heap; of a free entry, the number of the next free entry
	kind   timer.Kind
	leased bool // fired, and the lease has not ended
}

// plan is the part of a timer that a touch does not need.
type plan struct {
	at        int64 // tick, the heap's order: of a pending timer the end of a snooze or a lower bound of due; of a leased timer the time of redelivery
	first     int64 // tick
	gen       int64
	idle      int64 // milliseconds, rounded up
	max       int64 // milliseconds, rounded up; 0 = no cap
	owner     drive.AccountID
	pushBacks atomic.Int64 // touches that raised last; also raised under the read lock
}

// chunk is a block of timers; entry n and plan n belong together.
type chunk struct {
	entries [chunkLen]entry
	plans   [chunkLen]plan
}

// key returns the key of the timer.
func (e *entry) key() timer.Key { return timer.Key{Kind: e.kind, ID: e.id} }

// entry returns entry n. The number n is valid until the entry is dropped.
func (s *shard) entry(n int32) *entry { return &s.chunks[n/chunkLen].entries[n%chunkLen] }

// plan returns the plan of entry n.
func (s *shard) plan(n int32) *plan { return &s.chunks[n/chunkLen].plans[n%chunkLen] }

// due returns the due tick of entry n by its present touches.
func (s *shard) due(n int32) int64 {
	e, p := s.entry(n), s.plan(n)
	due := e.last.Load() + p.idle
	if p.max > 0 {
		due = min(due, p.first+p.max)
	}
	return due
}

// lease is a timer as of the moment it fired. Its times are ticks.
type lease struct {
	gen              int64
	owner            drive.AccountID
	first, last, due int64
	attempt          int
	pushBacks        int64
	delivery         int
	token            uint64      // identifies the lease
	touched          atomic.Bool // touched since it fired
}

// kindHeap is a min-heap of the timers of one kind, as indexes into the shard's entries. next is
// the time of the first one in ticks, for readers without the lock.
type kindHeap struct {
	heap []int32
	next atomic.Int64
}

// shard holds a part of the timers. mu guards all fields but kindHeap.next and the atomic fields of
// entries.
type shard struct {
	name   string // "17/64"
	mu     sync.RWMutex
	table  table
	chunks []*chunk         // the timers, by number
	free   int32            // number of the first free entry; -1 = none
	heaps  []kindHeap       // by kind
	leases map[int32]*lease // by number of the entry
	_      [64]byte         // keeps the locks of adjacent shards on different cache lines
}

// init empties the shard and makes heaps for the given number of kinds.
func (s *shard) init(kinds int) {
	s.table, s.chunks, s.free, s.leases = table{}, nil, -1, map[int32]*lease{}
	if s.heaps == nil {
		s.heaps = make([]kindHeap, kinds)
	}
	for i := range s.heaps {
		s.heaps[i].heap = nil
		s.heaps[i].next.Store(never)
	}
}

// addLocked adds an empty entry for key k, with hash h, to table and heap and returns its number.
// The caller must fill it and set its time with moveLocked, and holds s.mu for writing.
func (s *shard) addLocked(h uint64, k timer.Key) int32 {
	if s.free < 0 {
		s.addChunkLocked()
	}
	n := s.free
	e := s.entry(n)
	s.free = e.pos
	e.id, e.kind, e.leased = k.ID, k.Kind, false
	s.plan(n).at = never
	s.linkLocked(h, n)
	heap := &s.heaps[k.Kind].heap
	e.pos = int32(len(*heap))
	*heap = append(*heap, n)
	return n
}

// addChunkLocked allocates one chunk of entries and adds them to the free list. The caller holds
// s.mu for writing.
func (s *shard) addChunkLocked() {
	c, from := new(chunk), int32(len(s.chunks)*chunkLen)
	for i := range c.entries {
		c.entries[i].pos = from + int32(i) + 1
	}
	c.entries[chunkLen-1].pos = s.free
	s.chunks, s.free = append(s.chunks, c), from
}

// dropLocked removes entry n, with hash h, and its lease. The number n may then be used again. The
// caller holds s.mu for writing.
func (s *shard) dropLocked(h uint64, n int32) {
	e := s.entry(n)
	s.releaseLocked(n)
	s.removeLocked(n)
	s.unlinkLocked(h, n)
	e.pos, s.free = s.free, n
}

// releaseLocked ends the lease of entry n, if there is one; the entry stays where it is in the
// heap. The caller holds s.mu for writing.
func (s *shard) releaseLocked(n int32) {
	if e := s.entry(n); e.leased {
		e.leased = false
		delete(s.leases, n)
	}
}

// armLocked applies Queue.Arm to one entry with hash h; last and first are ticks. A lower
// generation than the stored one is ignored, the same one merges the times or ends the lease, and a
// higher one replaces the timer. The caller holds s.mu.
func (s *shard) armLocked(h uint64, x *timer.Entry, first, last int64) {
	n := s.findLocked(h, x.Key)
	isNew := n < 0
	if isNew {
		n = s.addLocked(h, x.Key)
	}
	e, p := s.entry(n), s.plan(n)
	if !isNew && x.Gen < p.gen {
		return
	}
	if !isNew && x.Gen == p.gen && !e.leased {
		p.owner, p.first, p.idle, p.max = x.Account, min(p.first, first), ceilMs(x.Idle), ceilMs(x.Max)
		e.last.Store(max(e.last.Load(), last))
		s.moveLocked(n, min(p.at, s.due(n)))
		return
	}
	s.releaseLocked(n)
	p.gen, p.owner, p.first, p.idle, p.max = x.Gen, x.Account, first, ceilMs(x.Idle), ceilMs(x.Max)
	p.pushBacks.Store(0)
	e.last.Store(last)
	s.moveLocked(n, s.due(n))
}

// ceilMs converts d to milliseconds and rounds up, so that nothing fires early (T1).
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// scanLimit bounds the entries that one lease examines under the lock, so that many touched timers
// reached at once do not block touches.
const scanLimit = 1024

// leaseLocked leases due timers of kind k until tick until, up to limit in b.Fired. Entries that
// were touched since and are not due yet are moved to their new time and counted in b.Early. It
// examines at most scanLimit entries. The caller holds s.mu for writing.
func (s *shard) leaseLocked(q *Queue, k timer.Kind, now, until int64, limit int, b *timer.Batch) {
	l := &s.heaps[k]
	for range scanLimit {
		if len(l.heap) == 0 || len(b.Fired) == limit {
			break
		}
		n := l.heap[0]
		if s.plan(n).at > now {
			break
		}
		if due := s.due(n); due > now && !s.entry(n).leased {
			b.Early++
			s.moveLocked(n, due)
			continue
		}
		b.Fired = append(b.Fired, s.fireLocked(q, n))
		s.moveLocked(n, until)
	}
}

// fireLocked leases entry n, or delivers its expired lease again under the same token, and returns
// the delivery. The caller must move the entry, and holds s.mu for writing.
func (s *shard) fireLocked(q *Queue, n int32) timer.Fired {
	e, f := s.entry(n), s.leases[n]
	if !e.leased {
		p := s.plan(n)
		f = &lease{
			gen: p.gen, owner: p.owner, first: p.first, last: e.last.Load(), due: max(p.at, s.due(n)), token: q.token(),
			pushBacks: p.pushBacks.Load(),
		}
		s.leases[n], e.leased = f, true
	}
	f.delivery++
	return timer.Fired{
		Key: e.key(), Gen: f.gen, Account: f.owner, First: q.clock.show(f.first), Last: q.clock.show(f.last), Due: q.clock.show(f.due),
		Attempt: f.attempt, Delivery: f.delivery, Token: f.token, PushBacks: f.pushBacks, Shard: s.name,
	}
}

// settleLocked applies one outcome. It returns the tick at which the timer is next reached, or
// never if it was removed or the token is stale; a stale outcome changes nothing. A done timer that
// was touched during its lease stays and is due again. The caller holds s.mu for writing.
func (s *shard) settleLocked(h uint64, o *timer.Outcome, now int64) int64 {
	n := s.findLocked(h, o.Key)
	if n < 0 {
		return never
	}
	e, f := s.entry(n), s.leases[n]
	if !e.leased || f.token != o.Token {
		return never
	}
	at := now + ceilMs(max(o.In, 0))
	switch o.Verdict {
	case timer.Retry:
		f.attempt = o.Attempt
	case timer.Snooze:
		s.releaseLocked(n)
	case timer.Done:
		if !f.touched.Load() {
			s.dropLocked(h, n)
			return never
		}
		s.releaseLocked(n)
		s.plan(n).first = e.last.Load()
		at = s.due(n)
	}
	s.moveLocked(n, at)
	return at
}
