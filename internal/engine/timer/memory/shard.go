package memory

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"smartdrive/internal/base/drive"
	"smartdrive/internal/engine/timer"
)

const (
	chunkLen = 256           // entries: 24,576 bytes, a size class of the allocator
	never    = math.MaxInt64 // as a tick
)

// entry is one timer: what a touch reads and writes. Two of them fill a cache line; what a touch
// does not need is elsewhere. All but last change under the shard's lock.
type entry struct {
	id     [16]byte
	last   atomic.Int64 // tick; grows under the shared lock too
	pos    int32        // place in the heap; of a free entry, the number of the next free one
	kind   timer.Kind
	leased bool
}

// plan is the rest of a timer.
type plan struct {
	at    int64 // its place in time: pending, a lower bound of due (or a snooze); leased, when it is delivered again
	first int64 // tick
	gen   int64
	idle  int64 // milliseconds, rounded up
	max   int64 // milliseconds, rounded up; 0 = no cap
	owner drive.AccountID
	moved atomic.Int64 // touches that moved last; grows under the shared lock too
}

type chunk struct {
	entries [chunkLen]entry
	plans   [chunkLen]plan
}

func (e *entry) key() timer.Key { return timer.Key{Kind: e.kind, ID: e.id} }

func (s *shard) entry(n int32) *entry { return &s.chunks[n/chunkLen].entries[n%chunkLen] }
func (s *shard) plan(n int32) *plan   { return &s.chunks[n/chunkLen].plans[n%chunkLen] }

func (s *shard) due(n int32) int64 {
	e, p := s.entry(n), s.plan(n)
	due := e.last.Load() + p.idle
	if p.max > 0 {
		due = min(due, p.first+p.max)
	}
	return due
}

// lease is a timer that has fired, frozen. Its times are ticks.
type lease struct {
	gen              int64
	owner            drive.AccountID
	first, last, due int64
	attempt          int
	moved            int64
	delivery         int
	token            uint64
	touched          atomic.Bool // since it fired
}

// lane is the heap of one kind and when its first entry comes up, which is read without the lock.
type lane struct {
	heap []int32
	next atomic.Int64
}

type shard struct {
	name   string // "17/64"
	mu     sync.RWMutex
	table  table
	chunks []*chunk
	free   int32 // first free entry; -1 = none
	lanes  []lane
	leases map[int32]*lease
	_      [64]byte // keeps the locks of neighbours on different cache lines
}

func (s *shard) init(kinds int) {
	s.table, s.chunks, s.free, s.leases = table{}, nil, -1, map[int32]*lease{}
	if s.lanes == nil {
		s.lanes = make([]lane, kinds)
	}
	for i := range s.lanes {
		s.lanes[i].heap = nil
		s.lanes[i].next.Store(never)
	}
}

// addLocked makes an empty entry for a key; the caller fills it and places it.
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
	heap := &s.lanes[k.Kind].heap
	e.pos = int32(len(*heap))
	*heap = append(*heap, n)
	return n
}

func (s *shard) addChunkLocked() {
	c, from := new(chunk), int32(len(s.chunks)*chunkLen)
	for i := range c.entries {
		c.entries[i].pos = from + int32(i) + 1
	}
	c.entries[chunkLen-1].pos = s.free
	s.chunks, s.free = append(s.chunks, c), from
}

// dropLocked removes an entry.
func (s *shard) dropLocked(h uint64, n int32) {
	e := s.entry(n)
	s.releaseLocked(n)
	s.removeLocked(n)
	s.unlinkLocked(h, n)
	e.pos, s.free = s.free, n
}

func (s *shard) releaseLocked(n int32) {
	if e := s.entry(n); e.leased {
		e.leased = false
		delete(s.leases, n)
	}
}

// armLocked applies Queue.Arm to one entry. last and first are ticks.
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
	p.moved.Store(0)
	e.last.Store(last)
	s.moveLocked(n, s.due(n))
}

// ceilMs rounds up, so that nothing fires early (T1).
func ceilMs(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }

// scanLimit bounds how many entries one lease looks at under the lock, so that a crowd of touched
// timers that come up together does not hold back the touches.
const scanLimit = 1024

// leaseLocked fires what is due, to at most limit in all in fired, and counts what came up early.
func (s *shard) leaseLocked(q *Queue, k timer.Kind, now, until int64, limit int, b *timer.Batch) {
	l := &s.lanes[k]
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

// fireLocked freezes a pending timer, or delivers a leased one again.
func (s *shard) fireLocked(q *Queue, n int32) timer.Fired {
	e, f := s.entry(n), s.leases[n]
	if !e.leased {
		p := s.plan(n)
		f = &lease{
			gen: p.gen, owner: p.owner, first: p.first, last: e.last.Load(), due: max(p.at, s.due(n)), token: q.token(),
			moved: p.moved.Load(),
		}
		s.leases[n], e.leased = f, true
	}
	f.delivery++
	return timer.Fired{
		Key: e.key(), Gen: f.gen, Account: f.owner, First: q.clock.show(f.first), Last: q.clock.show(f.last), Due: q.clock.show(f.due),
		Attempt: f.attempt, Delivery: f.delivery, Token: f.token, PushBacks: f.moved, Shard: s.name,
	}
}

// settleLocked applies one outcome. It returns when the timer comes up next; never if it is gone.
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
