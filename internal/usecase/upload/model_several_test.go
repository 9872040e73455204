package upload_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"example.org/smartdrive/internal/base/drive"
)

// TestRandomHistoriesOfTwoInstances is TestRandomHistories with two instances over one database and
// a shared staging. Each action goes to one of them, which may use cached state. Either may die,
// and the journals and timers may be emptied.
func TestRandomHistoriesOfTwoInstances(t *testing.T) {
	t.Parallel()
	for i := range severalWorkers {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			w := &world{t: t, several: true}
			rapid.Check(t, w.history)
		})
	}
}

// severalWorkers is a quarter of modelWorkers: 500 histories by default.
const severalWorkers = modelWorkers / 4

// turn draws the instance that acts next.
func (h *history) turn(rt *rapid.T) {
	if h.several {
		h.act(rapid.IntRange(0, len(h.sites)-1).Draw(rt, "instance"))
	}
}

func (h *history) act(i int) { h.Site, h.fate = h.sites[i], h.fates[i] }

// flush loses the journals, the timers, or both.
func (h *history) flush(rt *rapid.T) {
	what := rapid.IntRange(1, 3).Draw(rt, "what")
	if what&1 != 0 {
		h.shared.ForgetJournals()
		for _, it := range h.items {
			for n := range it.acked {
				it.lost[n] = true
			}
		}
	}
	if what&2 != 0 {
		h.shared.ForgetTimers()
		h.turn(rt)
		h.LoseTimers(rt)
	}
}

// checkMemory checks that ended uploads are evicted, at instances that have not seen the end after
// some idle time.
func (h *history) checkMemory(rt *rapid.T) {
	if h.several {
		h.Clock.Advance(5 * time.Minute)
	}
	for _, s := range h.sites {
		if h.several {
			_, _ = s.Get(rt.Context(), h.who[0], drive.NewID[drive.UploadID]())
		}
		if n, p := s.Lives(), s.Promised(); n != 0 || p != 0 {
			rt.Fatalf("%d uploads are in memory, %d bytes of disk are promised", n, p)
		}
	}
}
