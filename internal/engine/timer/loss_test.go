package timer

import "testing"

func TestLateReportsOfOneLossCountOnce(t *testing.T) {
	t.Parallel()
	w := newLossDetector()
	for _, epoch := range []uint64{1, 1, 2, 1, 2, 1} {
		w.observe(epoch)
	}
	if n := w.count.Load(); n != 1 {
		t.Errorf("one loss was counted %d times", n)
	}
	if w.observe(3); w.count.Load() != 2 {
		t.Errorf("a second loss was counted %d times in all", w.count.Load())
	}
}
