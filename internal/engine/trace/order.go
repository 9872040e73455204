package trace

import (
	"cmp"
	"slices"

	"example.org/smartdrive/internal/engine/timer"
)

// ranks orders steps with equal times.
var ranks = map[timer.Step]int{timer.Armed: 1, timer.Started: 2, timer.Published: 3, timer.Consumed: 4}

// sortSteps sorts the steps of a timer by time. The order of rows is meaningless, because instances
// write late, and times differ by the difference of the instances' clocks. A consumer may finish
// before the publisher has the broker's reply, so a publication is placed directly after its
// firing.
func sortSteps(steps []Step) {
	rank := func(s Step) int { return cmp.Or(ranks[s.Step], len(ranks)+1) }
	slices.SortStableFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Gen, b.Gen), cmp.Compare(a.At, b.At), cmp.Compare(a.Delivery, b.Delivery), cmp.Compare(rank(a), rank(b)))
	})
	for i, s := range steps {
		for k := i; s.Step == timer.Published && k > 0 && steps[k-1].Gen == s.Gen && steps[k-1].Step != timer.Started; k-- {
			steps[k], steps[k-1] = steps[k-1], steps[k]
		}
	}
}
