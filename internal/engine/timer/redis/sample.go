package redis

import (
	"context"
	"fmt"
	"sync"

	"smartdrive/internal/engine/timer"
)

// sampleRounds is how many samples go over all shards: of a million timers each one reads some
// 60,000.
const sampleRounds = 16

// sums are the timers of a shard, or of several.
type sums map[timer.Kind]timer.Horizon

func (s sums) add(kind timer.Kind, more timer.Horizon) {
	h := s[kind]
	h.Minute += more.Minute
	h.Hour += more.Hour
	h.Day += more.Day
	h.More += more.More
	h.Leased += more.Leased
	s[kind] = h
}

// sampler keeps what was counted of each shard, and counts some of them again each time.
type sampler struct {
	mu     sync.Mutex // no call is made under it
	shards []sums     // nil: none was counted yet
	next   int
}

// Sample implements timer.Sampler. The first sample counts all shards, each later one a sixteenth
// of them.
func (q *Queue) Sample(ctx context.Context) (map[timer.Kind]timer.Horizon, error) {
	return q.sampler.take(len(q.shards), func(from, to int) ([]sums, error) { return q.countShards(ctx, q.shards[from:to]) })
}

// take counts the shards whose turn it is. If that fails they come again with the next sample.
func (s *sampler) take(shards int, count func(from, to int) ([]sums, error)) (sums, error) {
	from, to := s.turn(shards)
	fresh, err := count(from, to)
	if err != nil {
		return nil, fmt.Errorf("count the timers of shards %d to %d: %w", from, to-1, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards == nil {
		s.shards = make([]sums, shards)
	}
	copy(s.shards[from:to], fresh)
	s.next = to % shards
	all := sums{}
	for _, one := range s.shards {
		for kind, h := range one {
			all.add(kind, h)
		}
	}
	return all, nil
}

func (s *sampler) turn(shards int) (from, to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards == nil {
		return 0, shards
	}
	return s.next, min(shards, s.next+max(1, shards/sampleRounds))
}
