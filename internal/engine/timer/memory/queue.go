package memory

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

const (
	shardBits = 6 // leading bits of a key's hash that select the shard
	numShards = 1 << shardBits
)

// Options configure a Queue; the zero value is valid.
type Options struct {
	// Now is the clock (default time.Now). Times without a monotonic reading, used in tests, may
	// jump: a jump back has no effect, a jump forward counts as elapsed time.
	Now func() time.Time
	// OnClockStep is called after the wall clock was set by more than a minute or the machine was
	// suspended; by is negative for a jump back. Timers are not affected. It runs inside a call of
	// the queue, so it must not call the queue.
	OnClockStep func(by time.Duration)
}

// Queue is a timer.Queue in process memory. It is safe for concurrent use. Its calls fail only for
// invalid arguments.
type Queue struct {
	clock     *clock
	tokens    atomic.Uint64
	epoch     atomic.Uint64
	nextShard []atomic.Uint32 // by kind: the shard at which the next Lease starts
	shards    [numShards]shard
}

var (
	_ timer.Queue     = (*Queue)(nil)
	_ timer.Inspector = (*Queue)(nil)
)

// New returns an empty queue.
func New(opt Options) *Queue {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	kinds := len(timer.Kinds()) + 1
	q := &Queue{clock: newClock(opt.Now, opt.OnClockStep), nextShard: make([]atomic.Uint32, kinds)}
	q.tokens.Store(rand.Uint64())
	q.epoch.Store(rand.Uint64() | 1)
	for i := range q.shards {
		q.shards[i].name = fmt.Sprintf("%d/%d", i, numShards)
		q.shards[i].init(kinds)
	}
	return q
}

// shard returns the shard that a key belongs to, and the hash by which the shard finds it. It does
// not lock the shard.
func (q *Queue) shard(k timer.Key) (*shard, uint64) {
	h := hash(k)
	return &q.shards[h>>(64-shardBits)], h
}

// token returns a new lease token, never 0.
func (q *Queue) token() uint64 {
	for {
		if t := q.tokens.Add(1); t != 0 {
			return t
		}
	}
}

// Arm adds or updates timers (timer.Queue). Invalid entries fail with BadRequest, and then no timer
// is armed.
func (q *Queue) Arm(_ context.Context, entries []timer.Entry) error {
	for i := range entries {
		if err := entries[i].Check(); err != nil {
			return err
		}
	}
	q.clock.sync()
	for i := range entries {
		x := &entries[i]
		s, h := q.shard(x.Key)
		s.mu.Lock()
		now := q.clock.tick() // read under the lock: an earlier touch, which found another entry or none, must not be later (T1)
		last := q.clock.place(x.Last, now, now)
		s.armLocked(h, x, q.clock.place(x.First, last, last), last)
		s.mu.Unlock()
	}
	return nil
}

// Touch records activity of the watched object now, which postpones the timer, or, if it is leased,
// is noted for its Settle (timer.Queue). A key without a timer is ignored. It holds only a read
// lock.
func (q *Queue) Touch(key timer.Key) {
	now := q.clock.tick()
	s, h := q.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.findLocked(h, key)
	if n < 0 {
		return
	}
	e := s.entry(n)
	for last := e.last.Load(); last < now; last = e.last.Load() {
		if e.last.CompareAndSwap(last, now) {
			s.plan(n).pushBacks.Add(1)
			break
		}
	}
	if e.leased {
		s.leases[n].touched.Store(true)
	}
}

// Cancel removes a timer and voids its lease if its gen is at most gen (timer.Queue). It always
// returns nil.
func (q *Queue) Cancel(_ context.Context, key timer.Key, gen int64) error {
	s, h := q.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.findLocked(h, key); n >= 0 && s.plan(n).gen <= gen {
		s.dropLocked(h, n)
	}
	return nil
}

// Lease leases up to limit due timers of one kind for the duration hold (timer.Queue). It starts at
// the shard where the last full batch ended, so that a backlog starves no shard.
func (q *Queue) Lease(_ context.Context, kind timer.Kind, limit int, hold time.Duration) (timer.Batch, error) {
	now := q.clock.sync()
	b := timer.Batch{Now: q.clock.show(now), Epoch: q.epoch.Load()}
	if !kind.Known() || limit <= 0 {
		return b, drive.Fail(drive.Internal, "kind", uint8(kind), "limit", limit)
	}
	next, from := int64(never), q.nextShard[kind].Load()
	for i := range uint32(numShards) {
		s := &q.shards[(from+i)%numShards]
		if len(b.Fired) < limit && s.heaps[kind].next.Load() <= now {
			s.mu.Lock()
			s.leaseLocked(q, kind, now, now+ceilMs(hold), limit, &b)
			s.mu.Unlock()
			if len(b.Fired) == limit {
				q.nextShard[kind].Store(from + i)
			}
		}
		next = min(next, s.heaps[kind].next.Load())
	}
	b.Wait = wait(next, now)
	return b, nil
}

// Settle ends leases (timer.Queue); outcomes with a stale token are ignored. It returns the time
// until the first of the remaining timers may be due, or timer.Never.
func (q *Queue) Settle(_ context.Context, outcomes []timer.Outcome) (time.Duration, error) {
	now, next := q.clock.tick(), int64(never)
	for i := range outcomes {
		s, h := q.shard(outcomes[i].Key)
		s.mu.Lock()
		next = min(next, s.settleLocked(h, &outcomes[i], now))
		s.mu.Unlock()
	}
	return wait(next, now), nil
}

// wait returns the time from now until next; timer.Never for never.
func wait(next, now int64) time.Duration {
	if next == never {
		return timer.Never
	}
	return time.Duration(max(next-now, 0)) * time.Millisecond
}

// Forget drops all timers and then changes the epoch, to simulate a loss in drills and tests.
// Timers armed during the call may be dropped; those armed after the new epoch is visible are kept.
func (q *Queue) Forget() {
	for i := range q.shards {
		s := &q.shards[i]
		s.mu.Lock()
		s.init(len(s.heaps))
		s.mu.Unlock()
	}
	q.epoch.Store(rand.Uint64() | 1)
}
