package redis

import (
	"testing"
	"time"
)

// TestReplyOfAFormerEpochIsIgnored checks that a reply overtaken by two losses is not reported as a
// third one, and that later replies are still used.
func TestReplyOfAFormerEpochIsIgnored(t *testing.T) {
	t.Parallel()
	sh, now := newShard("test", 0), time.Now()
	for i, step := range []struct {
		epoch string
		lost  bool
		knows string
	}{{"a", false, "a"}, {"b", true, "b"}, {"c", true, "c"}, {"a", false, "c"}, {"b", false, "c"}, {"c", false, "c"}, {"d", true, "d"}, {"c", false, "d"}} {
		lost := sh.observe(step.epoch, int64(i+1), now)
		if epoch, _ := sh.epochAndClock(now); lost != step.lost || epoch != step.knows {
			t.Errorf("step %d, epoch %s: lost %t, known is %s", i, step.epoch, lost, epoch)
		}
	}
	if _, clock := sh.epochAndClock(now); clock != 7 {
		t.Errorf("the clock is that of reply %d", clock)
	}
	for range 10 * maxFormer {
		sh.observe(newEpoch(), 1, now)
	}
	if len(sh.former) > maxFormer {
		t.Errorf("%d epochs are remembered", len(sh.former))
	}
}
