package trace

import (
	"cmp"
	"slices"

	"smartdrive/internal/engine/timer"
)

// ranks are the order of steps that carry the same millisecond, as they follow one another.
var ranks = map[timer.Step]int{timer.Armed: 1, timer.Started: 2, timer.Published: 3, timer.Consumed: 4}

// inOrder sorts the steps of a timer by when they were done. Instances write behind the work, so
// the order of the rows says nothing; where clocks differ, neither do the times, by that much. A
// consumer may be done before the one who published has the broker's reply: what was published
// stands directly behind its firing.
func inOrder(steps []Step) {
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
