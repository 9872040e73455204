package redis

import (
	"context"
	"fmt"
	"sync"

	"example.org/smartdrive/internal/engine/timer"
)

// sampleRounds is the number of samples that cover all shards: of a million timers each sample
// scans about 60,000.
const sampleRounds = 16

// sums are the counts of timers by kind, of one or several shards.
type sums map[timer.Kind]timer.DueCounts

// add adds more to the counts of kind.
func (s sums) add(kind timer.Kind, more timer.DueCounts) {
	h := s[kind]
	h.Minute += more.Minute
	h.Hour += more.Hour
	h.Day += more.Day
	h.More += more.More
	h.Leased += more.Leased
	s[kind] = h
}

// sampler caches the counts of each shard. Each sample recounts some shards.
type sampler struct {
	mu     sync.Mutex // not held during calls
	shards []sums     // by shard; nil before the first count
	next   int        // first shard of the next sample
}

// Sample returns the counts of Pending, most of them as of earlier calls (timer.Sampler). The first
// call counts all shards, each later one a sixteenth of them.
func (q *Queue) Sample(ctx context.Context) (map[timer.Kind]timer.DueCounts, error) {
	return q.sampler.refresh(len(q.shards), func(from, to int) ([]sums, error) { return q.countShards(ctx, q.shards[from:to]) })
}

// refresh recounts the next range of shards and returns the totals. After an error the next call
// counts the same range.
func (s *sampler) refresh(shards int, count func(from, to int) ([]sums, error)) (sums, error) {
	from, to := s.nextRange(shards)
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

// nextRange returns the shards to count next, from inclusive and to exclusive: all before the first
// count, then about 1/sampleRounds of them. It does not advance the sampler.
func (s *sampler) nextRange(shards int) (from, to int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards == nil {
		return 0, shards
	}
	return s.next, min(shards, s.next+max(1, shards/sampleRounds))
}
