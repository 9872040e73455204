package memory

import (
	"context"
	"time"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// Show returns the state of a timer: when it is due, or, if it is leased, when the lease ends
// (timer.Inspector). It fails with NotFound if the timer is not armed.
func (q *Queue) Show(_ context.Context, key timer.Key) (timer.State, error) {
	q.clock.sync()
	s, h := q.shard(key)
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := s.findLocked(h, key)
	if n < 0 {
		return timer.State{}, drive.Fail(drive.NotFound)
	}
	e, p, show := s.entry(n), s.plan(n), q.clock.show
	st := timer.State{
		Key: key, Gen: p.gen, Account: p.owner, First: show(p.first), Last: show(e.last.Load()), Indexed: show(p.at), Leased: e.leased,
		Idle: time.Duration(p.idle) * time.Millisecond, Max: time.Duration(p.max) * time.Millisecond,
		Due: show(max(p.at, s.due(n))), PushBacks: p.pushBacks.Load(), Shard: s.name,
	}
	if st.PushBacks > 0 {
		st.LastPushBack = st.Last
	}
	if f := s.leases[n]; e.leased {
		st.Due, st.Attempt, st.Delivery = st.Indexed, f.attempt, f.delivery
	}
	return st, nil
}

// Pending counts the timers of each kind by the time until they are due (timer.Inspector). It scans
// all timers, one shard at a time under the read lock: about 10 ms per million.
func (q *Queue) Pending(ctx context.Context) (map[timer.Kind]timer.DueCounts, error) {
	now := q.clock.sync()
	sums := make(map[timer.Kind]timer.DueCounts, len(timer.Kinds()))
	for i := range q.shards {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for _, kind := range timer.Kinds() {
			sum := sums[kind]
			q.shards[i].count(kind, now, &sum)
			sums[kind] = sum
		}
	}
	return sums, nil
}

// count adds the timers of kind to sum.
func (s *shard) count(kind timer.Kind, now int64, sum *timer.DueCounts) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, n := range s.heaps[kind].heap {
		if s.entry(n).leased {
			sum.Leased++
			continue
		}
		sum.Add(time.Duration(max(s.plan(n).at, s.due(n))-now) * time.Millisecond)
	}
}
