package trace

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"example.org/smartdrive/internal/base/drive"
	"example.org/smartdrive/internal/engine/timer"
)

// The broker's reply may arrive after the consumer is done; each publication follows its own firing
// all the same.
func TestPublishedFollowsFired(t *testing.T) {
	t.Parallel()
	at := func(gen int64, ms drive.Time, step timer.Step) Step { return Step{Gen: gen, At: ms, Step: step} }
	steps := []Step{
		at(1, 14, timer.Published), at(1, 13, timer.Applied), at(1, 12, timer.Consumed), at(1, 11, timer.Started), at(1, 10, timer.Armed),
		at(2, 21, timer.Consumed), at(2, 22, timer.Published), at(2, 20, timer.Started), at(2, 30, timer.Started), at(2, 32, timer.Published),
		at(2, 31, timer.Consumed), at(2, 33, timer.Applied),
	}
	sortSteps(steps)
	var got []timer.Step
	for _, s := range steps {
		got = append(got, s.Step)
	}
	want := []timer.Step{
		timer.Armed, timer.Started, timer.Published, timer.Consumed, timer.Applied,
		timer.Started, timer.Published, timer.Consumed, timer.Started, timer.Published, timer.Consumed, timer.Applied,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
