package redis

import (
	"errors"
	"testing"

	"example.org/smartdrive/internal/engine/timer"
)

// TestSamplesGoOverTheShardsInTurn: the first sample counts all shards, each later one a sixteenth;
// a failed range is counted again.
func TestSamplesGoOverTheShardsInTurn(t *testing.T) {
	t.Parallel()
	const shards = 64
	var timers [shards]int64 // as they are
	var s sampler
	counted, broken := 0, error(nil)
	take := func() int64 {
		t.Helper()
		all, err := s.refresh(shards, func(from, to int) (list []sums, err error) {
			for n := from; n < to; n++ {
				list = append(list, sums{timer.Park: {Day: timers[n]}})
				counted++
			}
			return list, broken
		})
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		return all[timer.Park].Day
	}
	for n := range timers {
		timers[n] = 10
	}
	if got := take(); got != 640 || counted != shards {
		t.Errorf("at first %d timers of %d shards", got, counted)
	}
	for n := range timers {
		timers[n] = 11
	}
	for turn := range sampleRounds {
		if turn == 5 {
			broken = errors.New("no answer")
			take()
			broken = nil
		}
		counted = 0
		if got, want := take(), int64(640+4*(turn+1)); got != want || counted != 4 {
			t.Errorf("turn %d: %d timers after counting %d shards, want %d after 4", turn, got, counted, want)
		}
	}
	counted = 0
	if got := take(); got != 64*11 || counted != 4 {
		t.Errorf("after a round %d timers, counting %d shards", got, counted)
	}
}
